"""`seq2seq serve`: clients of others, unmodified; load, limits, faults; start and stop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import json
import logging
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import deepl
import httpx
import jsonschema
import numpy as np
import pytest
from conftest import ENVIRONMENT, ROOT
from libretranslatepy import LibreTranslateAPI
from served import Held, model_of, serving
from tiny_translator import tiny_translator

from seq2seq.errors import DataError
from seq2seq.inference.translation import Translation
from seq2seq.serving.glossaries import Glossaries
from seq2seq.serving.limits import Keys, Limits

SENTENCE = "The old house is by the river."


@pytest.fixture(scope="module")
def alone(served):
    """The translation of one text, by the translator itself."""
    return lambda text, **how: served.quick.translate([text], **how)[0]


class Same:
    """Answers each text unchanged."""

    languages = ("en", "fr")

    def translate(self, texts, **settings):
        return [Translation(text, None) for text in texts]


# Clients of others


def test_libretranslatepy_translates_detects_and_lists(server, alone):
    client = LibreTranslateAPI(server)
    assert client.translate(SENTENCE, "en", "fr") == alone(SENTENCE).text
    assert client.translate(SENTENCE, "auto", "fr") == alone(SENTENCE).text
    assert client.detect("Bonjour tout le monde")[0]["language"] == "fr"
    assert client.detect("Hello")[0]["language"] == "en"
    english, french = client.languages()
    assert english == {"code": "en", "name": "English", "targets": ["fr"]}
    assert (french["code"], french["targets"]) == ("fr", [])


@pytest.mark.parametrize(
    ("q", "source", "target", "message"),
    [
        ("Bonjour", "fr", "en", "English (en) is not available as a target language from French"),
        ("Hello", "en", "zz", "zz is not supported"),
        ("", "en", "fr", "Invalid request: missing q parameter"),
    ],
)
def test_libretranslatepy_gets_the_errors_it_knows(server, q, source, target, message):
    with pytest.raises(urllib.error.HTTPError) as raised:
        LibreTranslateAPI(server).translate(q, source, target)
    assert raised.value.code == 400
    assert message in json.loads(raised.value.read())["error"]


def test_libretranslate_takes_json_forms_lists_and_gives_alternatives(server, alone):
    asked = {"q": ["Good evening.", SENTENCE], "source": "auto", "target": "fr", "alternatives": 2}
    found = httpx.post(f"{server}/translate", json=asked).json()
    assert found["translatedText"] == [alone(q, n_best=3).text for q in asked["q"]]
    assert [one["language"] for one in found["detectedLanguage"]] == ["en", "en"]
    assert found["alternatives"] == [
        [other.text for other in alone(q, n_best=3).alternatives] for q in asked["q"]
    ]
    form = {"q": SENTENCE, "source": "EN", "target": "FR"}
    found = httpx.post(f"{server}/translate", data=form).json()
    assert found["translatedText"] == alone(SENTENCE).text
    french = {"q": "Bonjour tout le monde, il fait beau", "source": "auto", "target": "fr"}
    found = httpx.post(f"{server}/translate", json=french).json()
    assert found["translatedText"] == french["q"]  # as it is in the language that is wanted


def test_html_is_translated_as_the_same_document_is(server, alone):
    pages = ["<p>He said &ldquo;hello&rdquo; to me.</p>", "<p>The <b>old</b>\nhouse.</p><p>12</p>",
             "<p>The <a href='/x'>river</a>.</p><pre>the code</pre>", "plain & simple"]  # fmt: skip
    expected = [
        httpx.post(f"{server}/v1/documents", files={"file": ("a.html", page)}).text
        for page in pages
    ]
    assert alone("He said “hello” to me.").text in expected[0]
    asked = {"q": pages, "source": "en", "target": "fr", "format": "html", "alternatives": 1}
    found = httpx.post(f"{server}/translate", json=asked).json()
    assert found == {"translatedText": expected, "alternatives": [[]] * len(pages)}
    client = deepl.DeepLClient("any", server_url=server)
    for lines in ("1", "nonewlines"):
        found = client.translate_text(pages, source_lang="EN", target_lang="FR",
                                      tag_handling="html", split_sentences=lines)  # fmt: skip
        assert [one.text for one in found] == expected


def test_html_keeps_what_is_not_translated_and_only_what_was_sent_is_counted():
    texts = ["a < b", "plain & simple", "", " <i></i> ", "<p>a\n &eacute; <br>b</p>", "</p><b>x"]
    asked = {"q": texts, "source": "en", "target": "fr", "format": "html"}
    with serving(model_of(Same()), limits=Limits(characters=70)) as address:
        answer = httpx.post(f"{address}/translate", json=asked)
        assert answer.json()["translatedText"] == texts
        used = httpx.get(f"{address}/v2/usage").json()["character_count"]
        assert used == sum(map(len, texts))
        assert httpx.post(f"{address}/translate", json=asked | {"q": "<b>" * 24}).status_code == 413


def test_a_text_in_the_target_language_stays_as_it_is_in_deepl_answers(server, alone):
    texts = ["Bonjour tout le monde, il fait beau", SENTENCE]
    client = deepl.DeepLClient("any", server_url=server)
    found = client.translate_text(texts, target_lang="FR")
    assert [one.text for one in found] == [texts[0], alone(SENTENCE).text]
    assert [one.detected_source_lang for one in found] == ["FR", "EN"]
    with pytest.raises(deepl.DeepLException, match="de is not supported"):
        client.translate_text([SENTENCE, "Ich weiß nicht, warum es so ist."], target_lang="FR")


def test_deepl_translates_texts_lists_and_tags(server, alone):
    client = deepl.DeepLClient("any", server_url=server)
    found = client.translate_text(SENTENCE, target_lang="FR")
    assert (found.text, found.detected_source_lang, found.billed_characters) == (
        alone(SENTENCE).text, "EN", len(SENTENCE))  # fmt: skip
    texts = ["Good evening.", SENTENCE]
    found = client.translate_text(texts, source_lang="EN", target_lang="FR",
                                  preserve_formatting=True)  # fmt: skip
    assert [one.text for one in found] == [alone(text).text for text in texts]
    tagged = client.translate_text("The <x id='1'>old</x> house.", target_lang="FR",
                                   tag_handling="xml").text  # fmt: skip
    assert tagged == alone("The <x id='1'>old</x> house.").text
    assert tagged.count("<x id='1'>") == tagged.count("</x>") == 1
    whole = "He left. She\nstayed."
    for how, expected in [("0", alone(whole, split=False)), ("1", alone(whole)),
                          ("nonewlines", alone(whole.replace("\n", " ")))]:  # fmt: skip
        found = client.translate_text(whole, target_lang="FR", split_sentences=how)
        assert found.text == expected.text


def test_deepl_keeps_glossaries(served, tmp_path, monkeypatch):
    with serving(served, glossaries=Glossaries(tmp_path)) as address:
        client = deepl.DeepLClient("any", server_url=address)
        made = client.create_glossary("mine", "EN", "FR", {"house": "demeure", "river": "fleuve"})
        assert (made.name, made.entry_count, made.ready) == ("mine", 2, True)
        found = client.translate_text(SENTENCE, source_lang="EN", target_lang="FR", glossary=made)
        assert {"demeure", "fleuve"} <= set(re.findall(r"\w+", found.text))
        [pair] = client.get_glossary_languages()
        assert (pair.source_lang, pair.target_lang) == ("en", "fr")
    with serving(served, glossaries=Glossaries(tmp_path)) as address:  # another start
        client = deepl.DeepLClient("any", server_url=address)
        [one] = client.list_glossaries()
        assert client.get_glossary_entries(one) == {"house": "demeure", "river": "fleuve"}
        assert client.get_glossary(one.glossary_id).creation_time == made.creation_time
        client.delete_glossary(one)
        assert client.list_glossaries() == [] == list(tmp_path.iterdir())
        with pytest.raises(deepl.GlossaryNotFoundException):
            client.get_glossary(one.glossary_id)
        with pytest.raises(deepl.DeepLException, match="line 2 comes twice"):
            client.create_glossary_from_csv("csv", "EN", "FR", "a,b\na,c")
    monkeypatch.setattr("seq2seq.serving.glossaries.ROOM", 40)
    full = Glossaries()
    assert full.add("a", "n", ("en", "fr"), {"house": "demeure"}) is not None
    assert full.add("b", "n", ("en", "fr"), {"house": "x" * 30}) is None
    stored = {"glossary_id": "i", "owner": "a", "name": "n", "source_lang": "en",
              "target_lang": "fr", "creation_time": "t", "entries": 5}  # fmt: skip
    for text in ("{}", json.dumps(stored)):
        (tmp_path / "broken.json").write_text(text)
        with pytest.raises(DataError, match=r"\(broken.json is not a glossary\): correct or move"):
            Glossaries(tmp_path)


def test_deepl_says_what_is_used_and_what_there_is(server):
    client = deepl.DeepLClient("any", server_url=server)
    before = client.get_usage().character.count
    client.translate_text("Hello", target_lang="FR")
    assert client.get_usage().character.count == before + 5
    assert [one.code for one in client.get_source_languages()] == ["EN"]
    assert [one.code for one in client.get_target_languages()] == ["FR"]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"target_lang": "EN-GB", "source_lang": "FR"}, r"English \(en\) is not available"),
        ({"target_lang": "DE"}, "de is not supported"),
        ({"target_lang": "FR", "formality": "more"}, "'formality' not supported"),
        ({"target_lang": "FR", "ignore_tags": ["x"]}, "'ignore_tags' not supported"),
        ({"target_lang": "FR", "custom_instructions": ["Be kind"]}, "'custom_instructions'"),
    ],
)
def test_deepl_gets_the_errors_it_knows(server, how, message):
    with pytest.raises(deepl.DeepLException, match=message) as raised:
        deepl.DeepLClient("any", server_url=server).translate_text("Bonjour", **how)
    assert raised.value.http_status_code == 400


def test_what_is_not_served_says_so(server):
    client = deepl.DeepLClient("any", server_url=server)
    asking = [
        lambda: client.rephrase_text("Hello"),
        lambda: client.translate_document(io.BytesIO(b"x"), io.BytesIO(), target_lang="FR",
                                          filename="a.txt"),
        client.list_multilingual_glossaries,
    ]  # fmt: skip
    for ask in asking:
        with pytest.raises(deepl.DeepLException, match=r"not served here: see /openapi.json"):
            ask()
    for path in ("/suggest", "/translate_file"):
        answer = httpx.post(server + path, json={})
        assert answer.status_code == 404
        assert answer.json()["error"] == f"{path} is not served here: see /openapi.json"
    assert not httpx.get(f"{server}/frontend/settings").json()["filesTranslation"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/translate", {"q": "Hi", "source": "en", "target": "fr", "alternatives": None,
                        "format": "", "api_key": ""}),
        ("/detect", {"q": "Hi", "api_key": None}),
        ("/v2/translate", {"text": "Hi", "target_lang": "FR", "source_lang": "",
                           "split_sentences": None, "tag_handling": "", "formality": None,
                           "show_billed_characters": "", "glossary_id": None}),
    ],
)  # fmt: skip
def test_an_empty_field_is_as_none(server, path, body):
    full = {name: value for name, value in body.items() if value}
    answers = [httpx.post(server + path, json=one) for one in (body, full)]
    assert answers[0].status_code == 200
    assert answers[0].json() == answers[1].json()


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/translate", {"q": 5, "source": "en", "target": "fr"}, "q: Input should be a valid str"),
        ("/translate", {"q": "", "source": "en", "target": "fr"}, "missing q parameter"),
        ("/translate", {"q": "a", "source": None, "target": "fr"}, "source: Input should be"),
        ("/translate", {"q": "a", "source": "en", "target": "fr", "alternatives": "x"},
         "alternatives parameter is not a number"),
        ("/v1/translate", {"text": "a", "decode": 5}, "decode: Input should be a valid dictionary"),
        ("/v1/documents", {"file": "a"}, "file parameter is not a file"),
        ("/v1/translate", {"text": "a", "decode": {"beam": True}}, "decode.beam: Input should be"),
        ("/v1/translate", {"text": "a", "decode": {"temperature": 0.5}},
         "decode.temperature needs decode.strategy=sample"),
        ("/v1/translate", {"text": "a", "prefix": "La maison", "banned": ["maison"]},
         "the prefix contains the banned 'maison'"),
    ],
)  # fmt: skip
def test_errors_name_what_the_client_sent(server, path, body, message):
    answer = httpx.post(server + path, json=body)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(f"Invalid request: {message}")
    assert "Decode" not in answer.json()["error"]


# Documents


def test_documents_are_answered_bounded_and_counted(tmp_path):
    (tmp_path / "keys.txt").write_text("ann key 0 70")
    limits, held = Limits(characters=50, texts=2, document=200_000), Held()
    held.go.set()
    with serving(model_of(held), keys=Keys(tmp_path / "keys.txt"), limits=limits) as address:
        def post(name, data, **form):
            key = {"Authorization": "Bearer key"}
            return httpx.post(f"{address}/v1/documents", files={"file": (name, data)}, data=form,
                              headers=key)  # fmt: skip

        lines = b"the old house\nis by the\nriver again\n"
        assert post("a.txt", lines, source="en").content == lines.upper()  # more texts than 2
        found = post("../a b.MD", b"# the big one\n")
        assert found.content == b"# THE BIG ONE\n"
        assert found.headers["content-disposition"] == "attachment; filename*=UTF-8''a%20b.MD"
        for name, data, status in [
            ("a.txt", b"x" * 51, 413), ("a.txt", b" " * 90_000, 413),
            ("a.txt", b" " * 300_000, 413),
            ("a.docx", b"PK", 400), ("a.exe", b"", 400), ("a.md", b"\xff", 400),
            ("a.txt", b"a" * 40, 456),
        ]:  # fmt: skip
            answer = post(name, data, source="en")
            assert (name, answer.status_code) == (name, status)
            assert answer.json()["error"]
        assert post("a.txt", b"a", source="fr").status_code == 400
        form = {"file": "no file", "source": "en"}
        key = {"Authorization": "Bearer key"}
        assert httpx.post(f"{address}/v1/documents", data=form, headers=key).status_code == 400
        assert httpx.post(f"{address}/v1/documents", files={"file": b""}).status_code == 403


# Keys and limits


def test_keys_rates_and_quotas_are_those_of_the_file(served, tmp_path):
    file = tmp_path / "keys.txt"
    file.write_text("ann secret-a  # may do as she likes\nbob secret-b 2 8\n", encoding="utf-8")
    with serving(served, keys=Keys(file)) as address:
        for wrong in ("secret-", "secret-ab", "sécret"):
            with pytest.raises(deepl.AuthorizationException, match="Invalid API key"):
                deepl.DeepLClient(wrong, server_url=address).get_usage()
        with pytest.raises(urllib.error.HTTPError, match="403"):
            LibreTranslateAPI(address).translate("Hello", "en", "fr")
        assert LibreTranslateAPI(address, "secret-a").translate("Hello", "en", "fr")
        assert deepl.DeepLClient("secret-a", server_url=address).get_usage().character.count == 5
        bearer = {"Authorization": "Bearer secret-b"}
        asked = {"text": ["Hello", "Hello"], "target_lang": "FR"}
        quota = httpx.post(f"{address}/v2/translate", json=asked, headers=bearer)
        assert quota.status_code == 456  # DeepL's status for it
        assert httpx.get(f"{address}/v2/usage", headers=bearer).json() == {
            "character_count": 0, "character_limit": 8}  # fmt: skip
        often = httpx.get(f"{address}/v2/usage", headers=bearer)
        assert often.status_code == 429
        assert 1 <= int(often.headers["retry-after"]) <= 30
        assert httpx.get(f"{address}/languages").status_code == 200  # of what there is, all know


@pytest.mark.parametrize("text", ["", "ann", "ann key many", "ann key 1 2 3", "ann a\nbob a"])
def test_a_file_of_keys_that_is_wrong_is_refused(tmp_path, text):
    (tmp_path / "keys.txt").write_text(text)
    with pytest.raises(DataError, match=r"keys\.txt"):
        Keys(tmp_path / "keys.txt")


def test_attention_counts_as_any_translation_and_one_runs_at_a_time(tmp_path, served, monkeypatch):
    file, at_once, most = tmp_path / "keys.txt", [], []

    def slow(*asked):
        at_once.append(1)
        most.append(len(at_once))
        time.sleep(0.05)
        at_once.pop()
        return {"source": [], "target": [], "layers": []}

    monkeypatch.setattr("seq2seq.serving.api._attention", slow)
    file.write_text("ann secret 0 60")
    with serving(served, keys=Keys(file)) as address, ThreadPoolExecutor(5) as pool:
        def ask(_):
            asked = {"text": "Hello", "translation": "Salut"}
            key = {"Authorization": "Bearer secret"}
            return httpx.post(f"{address}/v1/attention", json=asked, headers=key).status_code

        assert list(pool.map(ask, range(5))) == [200] * 5
        assert ask(0) == 200
        assert max(most) == 1
        assert ask(0) == 456  # all 60 characters were used


def test_what_is_too_large_is_refused_before_it_is_read():
    held = Held()
    held.go.set()
    with serving(model_of(held), limits=Limits(characters=100, texts=3)) as address:
        def post(q):
            return httpx.post(f"{address}/translate", json={"q": q, "source": "en", "target": "fr"})

        assert post("x" * 100).json() == {"translatedText": "X" * 100}
        assert post("x" * 101).status_code == 413
        assert post(["x"] * 4).status_code == 413
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as connection:  # sends no body at all
            connection.sendall(b"POST /translate HTTP/1.1\r\nhost: x\r\n"
                               b"content-length: 1000000000\r\n\r\n")  # fmt: skip
            assert b" 413 " in connection.recv(1000)
        endless = httpx.post(f"{address}/translate", content=(b"x" * 10_000 for _ in range(100)))
        assert endless.status_code == 413


def test_a_full_queue_a_long_wait_and_a_client_that_left():
    held = Held()
    asked = {"q": "x" * 80, "source": "en", "target": "fr"}
    with serving(model_of(held), limits=Limits(queue=110, timeout=1.5)) as address:
        answers = {}

        def post(name, **how):
            with contextlib.suppress(httpx.TimeoutException):
                answers[name] = httpx.post(f"{address}/translate", json=asked, **how)

        def waiting():
            text = httpx.get(f"{address}/metrics").text
            return "seq2seq_waiting_characters 100.0" in text

        slow = threading.Thread(target=post, args=["slow"])
        slow.start()
        while not held.batches:
            time.sleep(0.01)
        post("left", timeout=0.3)  # waits in the queue, and goes
        while waiting():
            time.sleep(0.01)
        queued = threading.Thread(target=post, args=["queued"])
        queued.start()
        while not waiting():
            time.sleep(0.01)
        post("refused")
        assert answers["refused"].status_code == 503
        assert httpx.get(f"{address}/readyz").text == "busy\n"
        assert 1 <= int(answers["refused"].headers["retry-after"]) <= 60
        slow.join()
        queued.join()
        assert answers["slow"].status_code == answers["queued"].status_code == 504
        held.go.set()
        post("after")
        assert answers["after"].json() == {"translatedText": "X" * 80}
        assert len(held.batches) == 3  # who left and who was refused took no time of the worker


def test_a_client_that_does_not_read_keeps_neither_its_place_nor_the_server():
    held = Held()
    held.go.set()
    body = json.dumps({"text": ["x" * 20_000] * 400, "source": "en", "stream": True})
    head = f"POST /v1/translate HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    left = 'seq2seq_request_seconds_count{path="/v1/translate",status="499"}'
    limits = Limits(timeout=1, characters=10**7, queue=10**8)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with serving(model_of(held), limits=limits, patience=1) as address:
            host, port = address.removeprefix("http://").split(":")
            connection.connect((host, int(port)))
            connection.sendall((head + body).encode())
            end = time.monotonic() + 20
            while left not in httpx.get(f"{address}/metrics").text:
                assert time.monotonic() < end
                time.sleep(0.05)
            stopped = time.monotonic()
        assert time.monotonic() - stopped < 10


def test_no_text_is_logged_whatever_happens(caplog):
    held = Held()
    held.go.set()
    with caplog.at_level(logging.DEBUG), serving(model_of(held)) as address:
        asked = {"q": "poison", "source": "en", "target": "fr"}
        assert httpx.post(f"{address}/translate?q=poison", json=asked).status_code == 500
        assert httpx.get(f"{address}/poison").status_code == 404
        asked = {"text": "good\npoison\npoison", "source": "en", "stream": True}
        lines = httpx.post(f"{address}/v1/translate", json=asked).text.splitlines()
        assert [*json.loads(lines[-1])] == ["error"]
        gc.collect()  # of futures whose faults nobody looked at
    own = [json.loads(one.message) for one in caplog.records if one.name == "seq2seq.serving"]
    assert [one["event"] for one in own] == ["fault", "request", "request", "fault", "request"]
    assert "poison" not in caplog.text.replace("/poison", "").replace("?q=poison", "")
    assert own[0]["kind"] == "ValueError"
    assert "served.py" in own[0]["at"][-1]
    assert "poison" not in json.dumps(own)


def test_headers_are_those_that_owasp_advises_and_cors_is_as_configured(served):
    with serving(served, origins=["https://good.example"]) as address:
        for path in ("/", "/languages", "/nowhere"):
            headers = httpx.get(address + path).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            assert "default-src 'none'" in headers["content-security-policy"]
            assert "unsafe" not in headers["content-security-policy"]
        for origin, allowed in [("https://good.example", True), ("https://bad.example", False)]:
            sent = {"Origin": origin, "Sec-Fetch-Site": "cross-site"}
            answer = httpx.get(f"{address}/languages", headers=sent)
            assert answer.status_code == (200 if allowed else 403)
            assert ("access-control-allow-origin" in answer.headers) == allowed
        exposed = answer.headers["access-control-expose-headers"]
        assert exposed == "retry-after, content-disposition"
        link = httpx.get(address, headers={"Sec-Fetch-Site": "cross-site"})
        assert link.status_code == 200  # another site may link to the page


# /v1


def test_v1_tells_all_that_a_translation_knows(server, alone):
    text = "The old house is by the river. I see it."
    asked = {"text": text, "model": "general", "alignment": True, "scores": True,
             "terms": {"house": "demeure"}, "decode": {"n_best": 2, "beam": 4}}  # fmt: skip
    answer = httpx.post(f"{server}/v1/translate", json=asked).json()
    [found] = answer["translations"]
    expected = alone(text, align=True, terms={"house": "demeure"}, n_best=2, beam=4)
    for name in ("text", "tokens", "notes", "finished"):
        assert found[name] == getattr(expected, name)
    assert [tuple(link) for link in found["alignment"]] == expected.alignment
    assert found["token_scores"] == pytest.approx(expected.token_scores, abs=1e-5)
    assert [one["text"] for one in found["alternatives"]] == [
        one.text for one in expected.alternatives]  # fmt: skip
    assert [one["text"] for one in found["words"]] in ([], found["text"].split())
    plain = alone(text)
    [told] = httpx.post(f"{server}/v1/translate", json={"text": text, "scores": True}).json()[
        "translations"]  # fmt: skip
    assert [one["text"] for one in told["words"]] == plain.text.split()


def test_v1_streams_line_by_line(server, alone):
    document = f"{SENTENCE}\n\n  Good evening.\n"
    with httpx.stream("POST", f"{server}/v1/translate",
                      json={"text": ["One.", document], "stream": True}) as answer:  # fmt: skip
        lines = [json.loads(line) for line in answer.iter_lines()]
    assert [one["number"] for one in lines] == [0, 1, 1, 1, 1]
    assert "\n".join(one["text"] for one in lines[1:]) == "\n".join(
        alone(line).text for line in document.split("\n"))  # fmt: skip


def test_v1_shows_attention_as_the_model_has_it(server, served, alone):
    written = alone(SENTENCE).text
    asked = {"text": SENTENCE, "translation": written}
    found = httpx.post(f"{server}/v1/attention", json=asked).json()
    assert max(len(str(w)) for row in found["layers"][0][0] for w in row) <= len("0.1234")
    sums = [sum(row) for layer in found["layers"] for head in layer for row in head]
    assert sums == pytest.approx([1] * len(sums), abs=0.01)
    assert {len(head) for layer in found["layers"] for head in layer} == {len(found["target"])}
    source, target = served.quick.as_read(SENTENCE), served.quick.as_written(written)
    ids = [v.encode([t])[0] for v, t in ((served.quick.vocabularies.source, source),
                                         (served.quick.vocabularies.target, target))]  # fmt: skip
    [own] = served.quick.engine.attention([tuple(ids)])  # of the head that alignments come from
    layers = np.array(found["layers"])  # (layers, heads, T, S)
    each = [*layers.reshape(-1, *own.shape), *layers.mean(axis=1)]
    assert min(abs(own - weights).max() for weights in each) < 1e-3


def test_v1_bounds_the_texts_of_a_stream_and_does_not_charge_what_fails():
    held = Held()
    held.go.set()
    with serving(model_of(held), limits=Limits(texts=2)) as address:
        def post(**asked):
            return httpx.post(f"{address}/v1/translate", json={"source": "en", **asked})

        assert len(post(text="a\n" * 600, stream=True).text.splitlines()) == 601
        before = httpx.get(f"{address}/v2/usage").json()
        assert post(text=["a"] * 3, stream=True).status_code == 413
        assert post(text="a", prefix="impossible").status_code == 400
        assert httpx.get(f"{address}/v2/usage").json() == before


@pytest.mark.parametrize(
    "change",
    [{"decode": {"beam": 21}}, {"decode": {"batch_tokens": 1}}, {"model": "../../etc"},
     {"source": "fr", "target": "en"}, {"target": "de"}, {"decode": {"n_best": 6, "beam": 5}},
     {"text": []}, {"terms": {"": "x"}}],
)  # fmt: skip
def test_v1_refuses_what_cannot_be(server, change):
    answer = httpx.post(f"{server}/v1/translate", json={"text": "The house."} | change)
    assert answer.status_code == 400
    assert answer.json()["error"]


# Load


async def ask_all(address, requests, at_once):
    gate = asyncio.Semaphore(at_once)
    limits = httpx.Limits(max_connections=at_once)
    async with httpx.AsyncClient(base_url=address, timeout=120, limits=limits) as client:
        async def ask(body):
            async with gate:
                answer = await client.post("/v1/translate", json=body)
                return answer.json()["translations"]

        return await asyncio.gather(*map(ask, requests))


def test_200_clients_at_once_get_what_each_would_get_alone():
    draw, translator = random.Random(5), tiny_translator()
    translate = cache(lambda text, **how: translator.translate([text], **how)[0])
    words = ["the", "big", "old", "house", "is", "a", "man", "reads", "<i>well</i>", "12"]
    texts = [" ".join(draw.choices(words, k=draw.randint(1, 9))) for _ in range(40)]
    hows = [{}, {"beam": 1}, {"n_best": 2}, {"strategy": "sample", "seed": 7, "n_best": 2}]
    requests = [
        {"text": draw.choice(texts), "source": "en", "scores": True, "decode": draw.choice(hows)}
        for _ in range(200)
    ]  # fmt: skip
    with serving(model_of(translator), workers=2) as address:
        answers = asyncio.run(ask_all(address, requests, 200))
        text = httpx.get(f"{address}/metrics").text
    for asked, [one] in zip(requests, answers, strict=True):
        alone = translate(asked["text"], **asked["decode"])
        assert (one["text"], one["tokens"]) == (alone.text, alone.tokens)
        assert one["token_scores"] == pytest.approx(alone.token_scores, abs=1e-4)
        assert [o["text"] for o in one["alternatives"]] == [o.text for o in alone.alternatives]
    batches = float(text.split("seq2seq_batch_texts_count ")[1].split()[0])
    assert batches < len(requests) / 2  # they were joined


# The OpenAPI document


def test_answers_are_as_the_document_says(server):
    document = httpx.get(f"{server}/openapi.json").json()
    names = [one["operationId"] for path in document["paths"].values() for one in path.values()]
    assert {"libretranslate_translate", "api_translate"} <= {*names}
    assert len({*names}) == len(names)

    def check(method, path, status, body=None):
        answer = httpx.request(method, server + path, json=body)
        assert answer.status_code == status
        told = document["paths"][path][method.lower()]["responses"]
        content = told.get(str(status), told["default"])["content"]["application/json"]
        schema = content["schema"] | {"components": document["components"]}
        jsonschema.validate(answer.json(), schema)

    check("POST", "/translate", 200, {"q": "Hi", "source": "auto", "target": "fr"})
    check("POST", "/translate", 400, {"q": "Hi"})
    check("POST", "/detect", 200, {"q": "Hello"})
    check("GET", "/languages", 200)
    check("GET", "/frontend/settings", 200)
    check("GET", "/health", 200)
    check("POST", "/v1/translate", 200, {"text": "Hi", "scores": True, "decode": {"n_best": 2}})
    check("POST", "/v1/translate", 400, {"text": "Hi", "x": 1})
    check("POST", "/v1/attention", 200, {"text": "Hi", "translation": "Salut"})
    check("GET", "/v1/models", 200)
    check("POST", "/v2/translate", 200, {"text": ["Hi"], "target_lang": "FR"})
    check("POST", "/v2/translate", 400, {"text": ["Hi"]})
    check("GET", "/v2/languages", 200)
    check("GET", "/v2/usage", 200)
    check("GET", "/v2/glossaries", 200)


@pytest.mark.slow
def test_schemathesis_finds_nothing(tmp_path):
    translator = tiny_translator()
    with serving(model_of(translator)) as address:
        found = subprocess.run(
            # What the models do not have is refused though it has the right form; and "2" and
            # true are taken for numbers, since forms have no others.
            [Path(sys.executable).with_name("schemathesis"), "run", f"{address}/openapi.json",
             "--max-examples", "20", "--no-color", "--seed", "1",
             "--exclude-checks", "positive_data_acceptance,negative_data_rejection"],
            capture_output=True, text=True, check=False, timeout=600, cwd=tmp_path,
        )  # fmt: skip
    assert found.returncode == 0, found.stdout[-3000:] + found.stderr[-500:]


# The command


def start(*arguments, log=subprocess.PIPE):
    command = [sys.executable, ROOT / "scripts/serve.py", "--port", "0", "--engine", "torch"]
    server = subprocess.Popen(
        [*map(str, command), *arguments], stdout=log, stderr=subprocess.PIPE,
        text=True, env={**ENVIRONMENT, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    for line in server.stderr:
        if "open http" in line:
            return server, line.split()[-1]
    raise AssertionError(server.wait())


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM")
def test_a_server_that_is_told_to_stop_answers_what_it_was_asked():
    server, address = start("--model", "mine=general", "--wait", "1000")
    answers = []
    asked = {"text": SENTENCE, "model": "mine"}
    post = threading.Thread(
        target=lambda: answers.append(httpx.post(f"{address}/v1/translate", json=asked)))
    try:
        assert httpx.get(f"{address}/readyz").text == httpx.get(f"{address}/livez").text == "ok\n"
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(b"no HTTP\r\n\r\n")
            assert b" 400 " in connection.recv(1000)
        form = {"content-type": "multipart/form-data; boundary=x"}
        damaged = httpx.post(f"{address}/translate", content=b"secret", headers=form)
        assert damaged.status_code == 400
        post.start()
        time.sleep(0.4)  # it waits for others to join it
        server.send_signal(signal.SIGTERM)
        post.join(30)
        assert answers[0].json()["translations"][0]["text"].startswith("La")
        log, rest = server.communicate(timeout=30)
    finally:
        server.kill()
    assert server.returncode == -signal.SIGTERM
    assert rest == ""
    last = [json.loads(line) for line in log.splitlines()][-1]
    assert "Invalid HTTP request received." in log
    assert (last["path"], last["status"]) == ("/v1/translate", 200)
    assert SENTENCE not in log + rest


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_a_server_that_was_killed_under_load_starts_again_with_its_glossaries(tmp_path):
    server, address = start("--glossaries", tmp_path, log=subprocess.DEVNULL)
    client = deepl.DeepLClient("any", server_url=address)
    made = client.create_glossary("mine", "EN", "FR", {"house": "demeure"})
    broken = []

    def post():
        with contextlib.suppress(httpx.TransportError):
            while True:
                httpx.post(f"{address}/v1/translate", json={"text": SENTENCE})
        broken.append(True)

    clients = [threading.Thread(target=post) for _ in range(8)]
    for one in clients:
        one.start()
    time.sleep(1)
    server.kill()
    for one in clients:
        one.join(30)
    assert len(broken) == 8  # none hangs
    server.communicate()
    again, _ = start("--glossaries", tmp_path, "--port", address.rpartition(":")[2],
                     log=subprocess.DEVNULL)
    try:
        found = client.translate_text("The house.", source_lang="EN", target_lang="FR",
                                      glossary=made)  # fmt: skip
        assert "demeure" in found.text
    finally:
        again.kill()
        again.communicate()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "general", "--model", "general"], "two models are called general"),
        (["--api-keys", "nowhere.txt"], "correct --api-keys"),
        (["--batch", "0"], "--batch 0 is too small"),
    ],
)
def test_mistakes_are_told_before_anything_is_served(script, arguments, message):
    found = script("serve", *arguments)
    assert found.returncode in (1, 2)
    assert message in found.stderr


def test_a_port_that_is_taken_is_told(script):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        found = script("serve", "--engine", "torch", "--port", taken.getsockname()[1])
    assert found.returncode == 1
    assert "Address already in use" in found.stderr
