"""Documents: what is text is translated, all else stays, and what is broken is told in one line.

In the texts below ¤ stands behind each word that is to be translated, and nowhere else.
"""

from __future__ import annotations

import io
import re
import tracemalloc
import zipfile
from typing import Any

import docx
import hypothesis.strategies as st
import polib
import pytest
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from hypothesis import given, settings
from lxml import etree

from seq2seq import documents
from seq2seq.documents import KINDS, read
from seq2seq.documents.inline import Code, Inline
from seq2seq.errors import DataError, RunError


def marked(text: str) -> str:
    """A translation that marks each word, and leaves tags, code and entities alone."""
    kept = r"(<[^>]*>|`[^`]*`|&\w+;|%\w|\{\w*\})|([^\W_][\w']*)"
    return re.sub(kept, lambda found: found[1] or f"{found[2]}¤", text)


def translated(data: bytes, kind: str, translate=marked, **how) -> bytes:
    document = read(data, kind, **how)
    return document.write([translate(text) for text in document.texts])


TEXTS = [
    (".txt", "Hello¤ there¤.\n\n  - one¤ <b>two¤</b>\n"),
    (".txt", "\ufeffHello¤\r\n\r\nWorld¤"),
    (".txt", ""),
    (".html", "<p>The¤ <b>old¤</b> house¤ &amp; <a href='x?a=1&amp;b=text'>river¤</a>.</p>"),
    (".html", "<!doctype html><html><head><title>Page¤</title><style>a {b: c}</style>"
              "<script>let x = 'text';</script></head><body><!-- a note --><h1>Big¤</h1></body>"),
    (".html", "<ul><li>one¤<li><i>two¤</i></ul><table><tr><td>three¤<td>4</table><br>five¤"),
    (".html", "<p>Run¤ <code>make test</code> now¤.</p><pre>as it\n is</pre><kbd>Ctrl</kbd>"),
    (".html", "<p translate=no>keep</p><span class='notranslate'>keep</span> word¤"),
    (".html", "a¤ &lt;b¤&gt; c¤"),
    (".html", "<p>un¤<b>closed¤</p><p>next¤</b></p>"),
    (".html", "<summary>More¤</summary>text¤ <a>Home¤</a> {x}<button>Save¤ it¤</button>"),
    (".htm", "<p>one¤<img src='text.png' alt='text'>two¤</p>"),
    (".md", "# Heading¤ *one¤* ##\n\nText¤ **bold¤** `code text` [link¤](http://x.org 'title').\n"),
    (".md", "---\ntitle: keep\n---\n\nSetext¤\n======\n\n***\n\n> quoted¤\n\n1. first¤\n2) two¤\n"),
    (".md", "```python\nprint('text')\n```\n\n    indented code\n\n<!-- a note -->\n"),
    (".md", "| Name¤ | `x` |\n|:-----|----:|\n| cell¤ **b¤** | 2 |\n"),
    (".md", "See¤ [this¤][ref], ![alt](pic.png) and¤ <http://x.org>.\n\n[ref]: http://text.org\n"),
    (".md", "- [ ] task¤\n  - nested¤ __strong¤__ ~~gone¤~~\n\n  more¤\n* other¤\\\n  line¤\n"),
    (".md", "> [!NOTE]\n> Keep¤ it¤.\n\n[^1]: A¤ note¤.\n[^b]: Another¤\n"),
    (".md", "5¤ \\* 3¤ is¤ 15¤, and¤ a_b¤; a¤ <kbd>k¤</kbd>\n\n<div>\nhtm¤ <b>block¤</b>\n</div>"),
    (".md", "Windows¤ line¤\r\n\r\n* end¤  \r\n  of¤ it¤\r\n"),
    (".srt", "1\n00:00:01,000 --> 00:00:02,500\nHello¤ there¤.\n\n2\n00:00:03,000 --> 00:00:04,000 "
             "X1:0 X2:9\n<i>I¤ know¤</i> it¤.\n"),
    (".srt", "\ufeff1\r\n0:00:01,0 --> 0:00:02,0\r\n{\\an8}- Yes¤?\r\n- <font color=x>No¤</font>"),
    (".srt", "7\n00:00:01,000 --> 00:00:02,000\n\n8\n00:00:01,000 --> 00:00:02,000\n42\n"),
    (".vtt", "WEBVTT - Title\n\nSTYLE\n::cue { color: red }\n\nNOTE a note\n\nintro\n"
             "00:01.000 --> 00:02.000 line:0 align:start\n<v Fred>Hi¤ &amp; <c.b>you¤</c></v>\n"),
    (".vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\n<00:01.500>Salt¤ and¤ pepper¤\n"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "text"), TEXTS, ids=range(len(TEXTS)))
def test_text_is_translated_and_all_else_stays(kind, text):
    data = text.replace("¤", "").encode()
    assert translated(data, kind, str) == data
    found = translated(data, kind).decode()
    assert found == text


@pytest.mark.parametrize(("kind", "text", "texts"), [
    (".html", "<a>Home</a> | <a>About <b>us</b></a>", ["Home", "About <g1>us</g1>"]),
    (".html", "See <a>x</a> <a>y</a>", ["See <g0>x</g0> <g2>y</g2>"]),
    (".html", "<b>Big</b> <b>house</b>", ["<g0>Big</g0> <g2>house</g2>"]),
    (".md", "One<br>Two", ["One\nTwo"]),
    (".srt", "00:00:01,000 --> 00:00:02,000\nÉVA: One\nA 10:30 train\nO’HARA-X: Three\n",
     ["ÉVA: One A 10:30 train", "O’HARA-X: Three"]),
    (".vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\n<v Jo>One\n<v Al>Two\n",
     ["One", "Two"]),
])  # fmt: skip
def test_what_belongs_together_is_read_together(kind, text, texts):
    assert read(text.encode(), kind).texts == texts


def test_lines_of_a_paragraph_or_cue_are_read_together():
    asked = read(b"> A long\n> line *of\n> text*.\n", ".md")
    assert asked.texts == ["A long line <g0>of text</g0>."]
    asked = read(b"<p>A long\n   line</p>", ".html")
    assert asked.texts == ["A long line"]
    cue = b"1\n00:00:01,000 --> 00:00:02,000\nI don't know why\nhe left.\n"
    asked = read(cue, ".srt")
    assert asked.texts == ["I don't know why he left."]
    made = asked.write(["Je ne sais pas pourquoi il est parti."]).decode()
    assert made.splitlines()[2:] == ["Je ne sais pas", "pourquoi il est parti."]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize(("kind", "text"), [
    (".txt", "é¤\r\nè¤"), (".html", "<p>é¤</p>\n"), (".md", "# é¤\r\n\r\n- à¤\r\n"),
    (".srt", "1\r\n00:00:01,000 --> 00:00:02,000\r\né¤\r\n")])  # fmt: skip
def test_encodings_and_line_ends_are_kept(kind, text, encoding):
    data = text.replace("¤", "").encode(encoding)
    assert translated(data, kind) == text.encode(encoding)
    assert translated(data, kind, str) == data


def test_a_page_may_say_its_encoding():
    page = "<meta charset='iso-8859-1'><p>café</p>".encode("latin-1")
    assert translated(page, ".html", lambda text: f"{text} œuf").endswith(b"caf\xe9 &#339;uf</p>")


def test_what_would_be_markup_in_a_translation_is_escaped():
    assert translated(b"a", ".html", lambda _: "a &lt; b") == b"a &lt; b"
    for said in ("*a*", "_a_", "`a`", "# a", "- a", "1. a", "[a](b)", "a | b", "\\a", "~~a~~"):
        made = translated(b"word\n", ".md", lambda _, said=said: said)
        assert read(made, ".md").texts == [said]
    made = translated(b"word\n", ".md", lambda _: "&gt; &lt;b&gt; &amp;amp;")
    assert read(made, ".md").texts == ["&gt; &lt;b&gt; &amp;amp;"]


def test_if_a_translation_has_lost_its_tags_each_code_still_encloses_words():
    text = b"See [the page](x) or `make all` and **stop now** here.\n"
    made = translated(text, ".md", lambda _: "voir la page ou et puis ici").decode()
    assert re.sub(r"\w+( \w+)*", "w", made) == "[w](w) w `w` w **w** w\n"
    words = re.findall(r"\w+", made.replace("(x)", "").replace("`make all`", ""))
    assert " ".join(words) == "voir la page ou et puis ici"


# Gettext and XLIFF, which hold both languages

PO = """# A comment
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=2; plural=(n > 1);\\n"

#. for the menu
#: a.c:1
#, c-format
msgctxt "menu"
msgid "Open %s\\n"
msgstr ""

msgid "one file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""

msgid "done"
msgstr "fini"

#, fuzzy
msgid "doubtful"
msgstr "douteux"

#~ msgid "old"
#~ msgstr "vieux"
"""


def test_messages_without_a_translation_get_one_that_is_fuzzy():
    made = polib.pofile("\n" + translated(PO.encode(), ".po").decode())
    before = polib.pofile("\n" + PO)
    by_id = {one.msgid: one for one in made}
    assert by_id["Open %s\n"].msgstr == "Open¤ %s\n"
    assert by_id["Open %s\n"].flags == ["c-format", "fuzzy"]
    assert by_id["one file"].msgstr_plural == {0: "one¤ file¤", 1: "%d files¤"}
    assert (by_id["done"].msgstr, by_id["done"].flags) == ("fini", [])
    assert (by_id["doubtful"].msgstr, by_id["doubtful"].flags) == ("douteux", ["fuzzy"])
    for one, other in zip(made, before, strict=True):
        for name in ("msgid", "msgctxt", "comment", "occurrences", "obsolete", "msgid_plural"):
            assert getattr(one, name) == getattr(other, name)
    assert made.metadata == before.metadata
    again = polib.pofile("\n" + translated(PO.encode(), ".po", again=True).decode())
    assert again.find("done").msgstr == "done¤"


def test_a_po_that_is_the_path_of_a_file_is_no_file(tmp_path):
    file = tmp_path / "secret.po"
    file.write_text(PO)
    with pytest.raises(DataError, match=r"not a readable \.po"):
        read(str(file).encode(), ".po")


def test_a_po_without_a_header_gets_none():
    data = b'msgid "a"\nmsgstr ""\n'
    assert translated(data, ".po") == b'#, fuzzy\nmsgid "a"\nmsgstr "a\xc2\xa4"\n'


def test_a_finished_po_stays_as_it_was():
    text = 'msgid "a"\nmsgstr   "b"\n'
    assert translated(text.encode(), ".po") == text.encode()


def test_a_letter_that_an_encoding_lacks_is_told():
    data = PO.replace("UTF-8", "ISO-8859-1").encode()
    with pytest.raises(DataError, match="œ cannot be written"):
        translated(data, ".po", lambda _: "œ")


OLD = """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file original="a" source-language="en" target-language="fr" datatype="plaintext"><body>
<trans-unit id="1"><source>The <g id="1">big<x id="2"/></g> house &amp; <ph id="3">&lt;br&gt;</ph>
 more.</source></trans-unit>
<trans-unit id="2" translate="no"><source>keep</source></trans-unit>
<trans-unit id="3"><source>done</source><target state="final">fait</target></trans-unit>
<group translate="no"><trans-unit id="4"><source>keep</source></trans-unit></group>
<trans-unit id="5"><source>Say <mrk mtype="protected">Hello</mrk></source><target/></trans-unit>
</body></file></xliff>
"""
NEW = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en">
 <file id="f"><unit id="u"><segment><source>A <pc id="1">red</pc> car<ph id="2"/>.</source>
 </segment><segment><source>17</source></segment></unit></file></xliff>
"""


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_xliff_keeps_its_encoding_and_line_ends(encoding, ends):
    said = OLD.replace("UTF-8", encoding).replace("\n", ends)
    made = translated(said.encode(encoding), ".xliff").decode(encoding)
    assert made.partition("encoding")[2].lower().startswith(f"='{encoding}'")
    assert made.count(ends) == made.count("\n") == said.count(ends)
    assert "big¤" in made


def test_xliff_gets_targets_with_the_same_codes():
    made = etree.fromstring(translated(OLD.encode(), ".xliff"))
    own = {one.get("id"): one for one in made.iter("{*}trans-unit")}
    first = own["1"].find("{*}target")
    assert first.get("state") == "needs-review-translation"
    assert etree.tostring(first, encoding="unicode").partition(">")[2] == (
        'The¤ <g id="1">big¤<x id="2"/></g> house¤ &amp; <ph id="3">&lt;br&gt;</ph> more¤.</target>'
    )
    assert [own[n].find("{*}target") is None for n in "24"] == [True, True]
    assert own["3"].find("{*}target").text == "fait"
    assert "".join(own["5"].find("{*}target").itertext()) == "Say¤ Hello"
    again = etree.fromstring(translated(OLD.encode(), ".xliff", again=True))
    assert [one.text for one in again.iter("{*}target")][1] == "done¤"
    made = etree.fromstring(translated(NEW.encode(), ".xlf", target="fr"))
    assert made.get("trgLang") == "fr"
    [segment, other] = made.iter("{*}segment")
    assert segment.get("state") == "translated"
    assert "".join(segment.find("{*}target").itertext()) == "A¤ red¤ car¤."
    assert other.find("{*}target") is None
    assert [one.text for one in made.iter("{*}source")] == [
        one.text for one in etree.fromstring(NEW.encode()).iter("{*}source")]  # fmt: skip


# Word


def element(name: str, text: str = "", /, **attributes: str):
    made = OxmlElement(f"w:{name}")
    if text:
        made.text = text
    for key, value in attributes.items():
        made.set(qn(f"w:{key}"), value)
    return made


def in_run(*children):
    made = element("r")
    made.extend(children)
    return made


def word(build) -> bytes:
    made, file = docx.Document(), io.BytesIO()
    build(made)
    made.save(file)
    return file.getvalue()


def full(made) -> None:
    """A document of everything."""
    made.add_heading("A title", 1)
    own = made.add_paragraph("My neighbor bought a ", style="List Bullet")
    own.add_run("red").bold = True
    own.add_run(" car.")
    own.add_run("\tnext\nline").italic = True
    link = element("hyperlink", anchor="here")
    link.append(in_run(element("t", "a link")))
    own._p.append(link)
    own._p.append(element("bookmarkStart", id="1", name="here"))
    own.add_run(" end")
    own._p.append(element("bookmarkEnd", id="1"))
    page = made.add_paragraph("Page ")
    for child in (element("fldChar", fldCharType="begin"), element("instrText", " PAGE "),
                  element("fldChar", fldCharType="separate"), element("t", "two"),
                  element("fldChar", fldCharType="end")):  # fmt: skip
        page._p.append(in_run(child))
    page.add_run(" of the book")
    gone = element("del", id="2", author="x")
    gone.append(in_run(element("delText", "deleted")))
    page._p.append(gone)
    table = made.add_table(2, 2)
    table.cell(0, 0).text, table.cell(1, 1).text = "cell one", "42"
    made.sections[0].header.paragraphs[0].text = "the header"
    made.sections[0].footer.paragraphs[0].text = "the footer"
    made.add_comment(own.runs[0], "a comment", "me", "m")


def seen(data: bytes) -> list[object]:
    """What stands in a document, by another library: runs of one look as one."""
    made = docx.Document(io.BytesIO(data))
    sections = [made.sections[0].header, made.sections[0].footer, *made.comments]
    cells = [cell for table in made.tables for row in table.rows for cell in row.cells]
    every = [one for part in (made, *sections, *cells) for one in part.paragraphs]
    found: list[object] = []
    for one in every:
        runs: list[list[object]] = []
        for run in one._p.iter(qn("w:r")):
            look = run.rPr.xml if run.rPr is not None else ""
            text = "".join(part.text or part.tag for part in run if part is not run.rPr)
            if runs and runs[-1][0] == look:
                runs[-1][1] += text
            else:
                runs.append([look, text])
        of_runs = [qn("w:r"), qn("w:t"), qn("w:rPr")]
        others = [child.tag for child in one._p.iter()
                  if child.tag not in of_runs and child.getparent().tag != qn("w:rPr")]  # fmt: skip
        found.append((one.style.name, runs, others))
    return found


def test_a_word_document_keeps_its_looks_links_fields_and_parts():
    data = word(full)
    asked = read(data, ".docx")
    [text] = [one for one in asked.texts if "neighbor" in one]
    assert re.sub("[0-9]", "", text).endswith(
        "<g>red</g> car.\n<g>next</g>\n<g>line</g><g>a link</g><x/> end"
    )
    assert seen(translated(data, ".docx", str)) == seen(data)
    made = translated(data, ".docx")
    text = repr(seen(made))
    for words in ("A¤ title¤", "red¤", "a¤ link¤", "cell¤ one¤", "the¤ header¤", "the¤ footer¤",
                  "a¤ comment¤", " of¤ the¤ book¤", "deleted"):  # fmt: skip
        assert words in text
    assert "two¤" not in text  # what a field shows
    assert text.replace("¤", "") == repr(seen(data))
    with zipfile.ZipFile(io.BytesIO(data)) as before, zipfile.ZipFile(io.BytesIO(made)) as after:
        assert before.namelist() == after.namelist()
        for name in ("word/styles.xml", "docProps/core.xml", "word/_rels/document.xml.rels"):
            assert before.read(name) == after.read(name)


def test_the_entries_of_a_table_of_contents_are_translated():
    """The first entry begins the field, and a link of it may be a field, too."""

    def marks(*kinds: str):
        return [in_run(element("fldChar", fldCharType=kind)) for kind in kinds]

    def build(made) -> None:
        made.add_paragraph()._p.extend([
            *marks("begin"), in_run(element("instrText", ' TOC \\o "1-3" ')), *marks("separate"),
            *marks("begin"), in_run(element("instrText", ' HYPERLINK "#a" ')), *marks("separate"),
            in_run(element("t", "One")), *marks("end"),
        ])  # fmt: skip
        made.add_paragraph("Two")._p.extend(marks("end"))

    data = word(build)
    assert read(data, ".docx").texts == ["One", "Two"]
    made = docx.Document(io.BytesIO(translated(data, ".docx")))
    assert [one.text for one in made.paragraphs] == ["One¤", "Two¤"]


def test_words_take_their_looks_along():
    def build(made):
        own = made.add_paragraph("a ")
        own.add_run("red").bold = True
        own.add_run(" car")

    made = translated(word(build), ".docx", lambda _: "une voiture <g0>rouge</g0>")
    [own] = docx.Document(io.BytesIO(made)).paragraphs
    assert [(run.text, run.bold) for run in own.runs] == [("une voiture ", None), ("rouge", True)]
    lost = translated(word(build), ".docx", lambda _: "une voiture")
    [own] = docx.Document(io.BytesIO(lost)).paragraphs
    assert own.text == "une voiture"


# Codes

NAMES = st.sampled_from(["<g0>", "</g0>", "<x1/>", "\n", "`w`", "<g9>", "word ", "a &amp; b", "<"])


@given(st.lists(NAMES, max_size=12).map("".join))
def test_whatever_a_translation_does_with_tags_each_code_is_there_once_and_encloses_as_before(said):
    codes = [Code("open", "["), Code("alone", "!"), Code("close", "]"), Code("word", "W", "w"),
             Code("break", "/"), Code("open", "("), Code("close", ")")]  # fmt: skip
    parts = ["a ", codes[0], "b", *codes[1:3], " c", *codes[3:6], "d", codes[6], "e"]
    found = Inline(parts).fill(said)
    assert {id(one) for one in found if isinstance(one, Code)} == set(map(id, codes))
    marks = "".join(one.content for one in found if isinstance(one, Code))
    assert len(marks) == len(codes)
    assert marks.index("[") < marks.index("!") < marks.index("]")
    assert marks[marks.index("(") + 1] == ")"
    assert not re.search(r"</?[gx]\d", "".join(one for one in found if isinstance(one, str)))


# Broken ones

BOMB = io.BytesIO()
with zipfile.ZipFile(BOMB, "w", zipfile.ZIP_DEFLATED) as packed:
    packed.writestr("[Content_Types].xml", b" " * 80_000_000)
EMPTY = io.BytesIO()
with zipfile.ZipFile(EMPTY, "w") as packed:
    packed.writestr("[Content_Types].xml", "<Types/>")
LAUGHS = "".join(f"<!ENTITY a{n} '{f'&a{n - 1};' * 10}'>" for n in range(1, 9))
ENTITY = "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>"


def packed(files: dict[str, Any], how: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", how) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return made.getvalue()


BROKEN = [
    (".txt", b"caf\xe9", "is not utf-8"),
    (".txt", b"\xff\xfea", "is not utf-16-le"),
    (".txt", b"a\0b", "null characters"),
    (".html", b"<meta charset=klingon><p>a", "is not klingon"),
    (".html", b"<p>caf\xe9", "is not utf-8"),
    (".md", b"\xe9", "is not utf-8"),
    (".md", b"[" * 10_001, "more than 10,000 characters"),
    (".srt", b"no subtitles", "no subtitles of the kind .srt"),
    (".srt", b"", "no subtitles"),
    (".vtt", b"1\n00:00:01,000 --> 00:00:02,000\nHello\n", "of the kind .vtt"),
    (".po", b"hello", "not a readable .po"),
    (".po", b"# nothing but a comment", "no msgid"),
    (".po", b'msgstr "b"\nmsgid a\n', "not a readable .po"),
    (".po", b'msgid ""\nmsgstr "Content-Type: a; charset=klingon\\n"\n', "is not klingon"),
    (".xliff", b"", "XML cannot be read"),
    (".xliff", b"<xliff><file>", "XML cannot be read"),
    (".xliff", b"<html/>", "not XLIFF"),
    (".xliff", f"<!DOCTYPE a [<!ENTITY a0 'a'>{LAUGHS}]><xliff>&a8;</xliff>".encode(), "XML"),
    (".xliff", b'<!DOCTYPE a [<!ENTITY a SYSTEM "/etc/passwd">]><xliff>&a;</xliff>', "DOCTYPE"),
    (".xliff", b"<a>" * 3000 + b"</a>" * 3000, "XML cannot be read"),
    (".docx", b"", "damaged, encrypted, or no .docx"),
    (".docx", b"PK\x03\x04 and no more", "damaged, encrypted, or no .docx"),
    (".docx", word(full)[:-30], "damaged, encrypted, or no .docx"),
    (".docx", word(full).replace(b"PK\x03\x04", b"PK\x03\x05"), "damaged, encrypted, or no .docx"),
    (".docx", BOMB.getvalue(), "bytes unpacked"),
    (".docx", EMPTY.getvalue(), "no text of Word"),
    (".docx", packed({"word/document.xml": "<w:document"}), "XML cannot be read"),
    (".docx", packed({"word/document.xml": ENTITY}), "DOCTYPE"),
    (".pdf", b"%PDF", ".pdf is not a known kind of document: "),
    ("", b"", "a name without an end"),
]


@pytest.mark.parametrize(("kind", "data", "message"), BROKEN, ids=range(len(BROKEN)))
def test_a_broken_document_is_told_in_one_line(kind, data, message):
    with pytest.raises(DataError, match=re.escape(message)) as raised:
        read(data, kind)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("kind", sorted(KINDS))
@settings(deadline=None)  # the first example loads the library
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(kind, data):
    try:
        found = read(data, kind)
    except DataError:
        return
    found.write(found.texts)


def test_an_archive_that_lies_about_its_size_is_not_unpacked():
    size = 100_000_000
    bomb = packed({"[Content_Types].xml": bytes(size)})
    bomb = bomb.replace(size.to_bytes(4, "little"), (100).to_bytes(4, "little"))
    tracemalloc.start()
    with pytest.raises(DataError, match="damaged"):
        read(bomb, ".docx")
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()
    with pytest.raises(DataError, match="packed otherwise"):
        read(packed({"[Content_Types].xml": b"x"}, zipfile.ZIP_BZIP2), ".docx")


def test_a_damaged_picture_is_told_before_anything_is_translated():
    data = packed({"[Content_Types].xml": b"<Types/>", "media/image.png": b"picture"}, 0)
    with pytest.raises(DataError, match="damaged"):
        read(data.replace(b"picture", b"pikture"), ".docx")


def test_deep_nesting_is_read_in_linear_time():
    depth = 3000
    document = read(b"<p>" + b"<b>" * depth + b"word" + b"</b>" * depth + b"</p>", ".html")
    assert document.texts == ["word"]


def test_a_cell_is_not_looked_for_behind_its_table():
    text = "| a \\| b |\n|---|\n\nHello there\n\n    a | b\n"
    assert translated(text.encode(), ".md").decode().endswith("Hello¤ there¤\n\n    a | b\n")
    assert "x¤" in translated(b"one\r\rx\r\ry", ".md").decode()


@pytest.mark.parametrize("name", ["undefined", "punycode", "unicode_escape"])
def test_a_page_in_an_encoding_of_python_alone_is_refused(name):
    with pytest.raises(DataError, match="convert it"):
        read(f"<meta charset='{name}'><p>word</p>".encode(), ".html")


def test_what_is_too_large_or_needs_a_library_is_told(monkeypatch):
    with pytest.raises(DataError, match="more than 10 bytes"):
        read(b"x" * 11, ".txt", most=10)
    monkeypatch.setattr(documents, "find_spec", lambda name: None)
    with pytest.raises(RunError, match=r"needs lxml, which is missing: pip install .*documents"):
        read(b"", ".docx")
