"""XLIFF 1.2 and 2: untranslated segments get a target that is marked as not reviewed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy

from lxml import etree

from seq2seq.documents import Document, Wanted
from seq2seq.documents.inline import Code, Inline, Part
from seq2seq.documents.xml import Element, name_of, parsed, written
from seq2seq.errors import DataError

PAIRED = {"g", "mrk", "pc"}  # elements with text of the sentence inside; all others are codes


def read(data: bytes, wanted: Wanted) -> Document:
    """Read the sources that have no translation yet.

    Raises:
        DataError: the document is no XLIFF.
    """
    tree = parsed(data)
    root = tree.getroot()
    if name_of(root) != "xliff":
        raise DataError("the document is not XLIFF: is it another kind?")
    found = [(source, Inline(list(_parts(source)))) for source in _sources(root, wanted.again)]
    found = [(source, inline) for source, inline in found if inline.text]

    def write(translations: Sequence[str]) -> bytes:
        if not found:
            return data
        for (source, inline), said in zip(found, translations, strict=True):
            _fill(_target(source), inline.fill(said))
        for element in [root, *root.iter("{*}file")]:
            name = "trgLang" if name_of(element) == "xliff" else "target-language"
            of_version = element.get("srcLang") or element.get("source-language")
            if of_version and not element.get(name):
                element.set(name, wanted.target)
        return written(tree, data)

    return Document([inline.text for _, inline in found], write)


def _sources(root: Element, again: bool) -> Iterator[Element]:
    for segment in root.iter("{*}trans-unit", "{*}segment"):
        above = [segment, *segment.iterancestors()]
        told = next((one.get("translate") for one in above if one.get("translate")), "yes")
        source, target = segment.find("{*}source"), segment.find("{*}target")
        there = target is not None and "".join(target.itertext()).strip()
        if told != "no" and source is not None and (again or not there):
            yield source


def _parts(element: Element) -> Iterator[Part]:
    yield element.text or ""
    for child in element:
        if child.get("translate") == "no" or child.get("mtype") == "protected":
            yield Code("word", child, "".join(child.itertext()))
        elif name_of(child) in PAIRED:
            yield Code("open", child)
            yield from _parts(child)
            yield Code("close", child)
        else:
            yield Code("alone", child)
        yield child.tail or ""


def _target(source: Element) -> Element:
    """Return the emptied target of a source; add one if there is none."""
    segment = source.getparent()
    assert segment is not None
    target = segment.find("{*}target")
    if target is None:
        target = etree.Element(etree.QName(etree.QName(source).namespace, "target"))
        target.tail = source.tail
        source.addnext(target)
    if name_of(segment) == "trans-unit":
        target.set("state", "needs-review-translation")
    else:
        segment.set("state", "translated")
    for child in list(target):
        target.remove(child)
    return target


def _fill(target: Element, parts: Sequence[Part]) -> None:
    """Write text and copies of the codes into an element."""
    target.text = ""
    inside = [target]
    for part in parts:
        if isinstance(part, str):
            _add_text(inside[-1], part)
        elif part.kind == "close":
            inside.pop()
        else:
            copy = deepcopy(part.content)
            copy.tail = None
            inside[-1].append(copy)
            if part.kind == "open":
                for child in list(copy):
                    copy.remove(child)
                copy.text = None
                inside.append(copy)


def _add_text(element: Element, text: str) -> None:
    if len(element):
        element[-1].tail = (element[-1].tail or "") + text
    else:
        element.text = (element.text or "") + text
