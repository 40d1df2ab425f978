"""The models of a server: which of them answers, and on which engine."""

from __future__ import annotations

import asyncio

import pytest
from served import model_of
from tiny_translator import tiny_translator

from seq2seq.serving.models import Model, Models, NoModel, UnknownLanguage, load


class Languages:
    def __init__(self, *languages):
        self.languages = languages


def test_only_what_ctranslate2_lacks_loads_torch():
    pytest.importorskip("ctranslate2")
    [model] = load(["mine=general"], "cpu", "auto", "auto")
    [quick] = model.run(["The old house."], {"n_best": 2, "align": True}, lambda _: None)
    assert model.name == "mine"
    assert model.exact.cache_info().currsize == 0
    assert quick.token_scores == []
    [exact] = model.run(["The old house."], {"token_scores": True}, lambda _: None)
    assert model.exact.cache_info().currsize == 1
    assert len(exact.token_scores) == len(exact.tokens) + 1
    assert exact.text == quick.text


def test_languages_and_names_choose_a_model():
    async def scenario():
        pairs = {"first": ("en", "fr"), "second": ("en", "fr"), "back": ("fr", "en")}
        made = [Model(name, Languages(*pair), None) for name, pair in pairs.items()]
        models = Models(made)
        for (source, target, name), expected in {
            ("en", "fr", None): "first", ("en", None, None): "first",
            ("en", "fr", "second"): "second", ("fr", "en", None): "back",
        }.items():  # fmt: skip
            assert models.choose(source, target, name).name == expected
        for source, target, name in [("en", "en", None), ("en", "fr", "back"), ("en", "fr", "x")]:
            with pytest.raises(NoModel):
                models.choose(source, target, name)
        with pytest.raises(UnknownLanguage, match="de"):
            models.choose("en", "de")
        for one in models.batchers.values():
            await one.close()

    asyncio.run(scenario())


def test_a_language_is_that_of_a_model_unless_that_is_surely_wrong():
    async def scenario():
        models = Models([model_of(tiny_translator())])
        for text, language in [
            ("Hello", "en"), ("", "en"), ("42", "en"), ("Bonjour tout le monde", "fr"),
            ("Ich weiß nicht, warum das Haus alt ist.", "de"),
        ]:  # fmt: skip
            found = models.detect(text)
            assert found[0].language == language
            assert all(0 <= one.confidence <= 1 for one in found)
        await models.batchers["tiny"].close()

    asyncio.run(scenario())
