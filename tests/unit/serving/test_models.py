"""The models of a server: which of them answers, and on which engine."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry
from served import model_of
from tiny_translator import tiny_translator

from seq2seq.serving.glossaries import Glossaries
from seq2seq.serving.limits import Keys, Limits, Refused
from seq2seq.serving.models import Model, load
from seq2seq.serving.service import Service


class Languages:
    def __init__(self, *languages):
        self.languages = languages


def run(models, scenario):
    """Run a scenario with the service of these models."""

    async def whole():
        service = Service(models, Limits(), Keys(None), Glossaries(), CollectorRegistry())
        scenario(service)
        await service.close()

    asyncio.run(whole())


def test_what_ctranslate2_lacks_is_left_to_torch():
    pytest.importorskip("ctranslate2")
    [model] = load(["mine=general"], "cpu", "auto", "auto")
    [quick] = model.run(["The old house."], {"n_best": 2, "align": True}, lambda _: None)
    assert model.name == "mine"
    assert quick.token_scores == []
    [exact] = model.run(["The old house."], {"token_scores": True}, lambda _: None)
    assert len(exact.token_scores) == len(exact.tokens) + 1
    assert exact.text == quick.text


def test_languages_and_names_choose_a_model():
    pairs = {"first": ("en", "fr"), "second": ("en", "fr"), "back": ("fr", "en")}

    def scenario(service):
        for (source, target, name), expected in {
            ("en", "fr", None): "first", ("en", None, None): "first",
            ("en", "fr", "second"): "second", ("fr", "en", None): "back",
        }.items():  # fmt: skip
            assert service.choose(source, target, name).name == expected
        for asked, message in [
            (("en", "en"), r"English \(en\) is not available as a target language from English"),
            (("en", "fr", "back"), r"French \(fr\) is not available"),
            (("en", "fr", "x"), "no model x"),
            (("en", "de"), "de is not supported"),
        ]:
            with pytest.raises(Refused, match=message):
                service.choose(*asked)

    run([Model(name, Languages(*pair), None) for name, pair in pairs.items()], scenario)


def test_the_language_of_a_model_comes_first_if_the_likeliest_is_unsure():
    def scenario(service):
        for text, language in [
            ("Hello", "en"), ("", "en"), ("42", "en"), ("Bonjour tout le monde", "fr"),
            ("Ich weiß nicht, warum das Haus alt ist.", "de"), ("Il fait beau.", "fr"),
        ]:  # fmt: skip
            found = service.detect(text)
            assert found[0][0] == language
            assert all(0 <= sure <= 1 for _, sure in found)

    run([model_of(tiny_translator())], scenario)
