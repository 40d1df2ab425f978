"""Word documents (.docx): the text of paragraphs, wherever they are; all else stays as it was.

Paragraphs of the body, of tables, text boxes, headers, footers, notes and comments are texts. Runs
that look otherwise than most of their paragraph, and links, enclose their words in the translation,
too. A field, a picture, a reference to a note or a bookmark stands where its words went. Deleted
text of tracked changes stays, and so does what a field shows in its paragraph, such as a date.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import groupby

from lxml import etree

from seq2seq.documents import Document, Wanted
from seq2seq.documents.inline import Code, Inline, Part
from seq2seq.documents.xml import Element, name_of, parsed, written
from seq2seq.errors import DataError

STORY = re.compile(  # files with paragraphs
    r"word/(document|header|footer|footnotes|endnotes|comments)\d*\.xml"
)
# What holds runs of the paragraph's text, and what is said of it before them.
PAIRED = {"hyperlink", "ins", "moveTo", "smartTag", "sdt", "sdtContent", "dir", "bdo", "customXml"}
PROPERTIES = {"pPr", "rPr", "sdtPr", "sdtEndPr", "smartTagPr", "customXmlPr"}
BREAKS = {"tab", "br", "cr", "ptab"}
LETTERS = {"noBreakHyphen": "\u2011", "softHyphen": "\u00ad"}
UNSEEN = {"lang", "noProof"}  # properties of a run that change nothing in its looks
SPACE = "{http://www.w3.org/XML/1998/namespace}space"


def read(data: bytes, wanted: Wanted) -> Document:
    """The paragraphs of a document."""
    files = _unpacked(data, wanted.most)
    trees = {name: parsed(files[name]) for name in files if STORY.fullmatch(name)}
    if not trees:
        raise DataError("the document holds no text of Word: is it another kind?")
    every = [Paragraph(one) for tree in trees.values() for one in tree.iter("{*}p")
             if etree.QName(one).namespace == etree.QName(tree.getroot()).namespace]  # fmt: skip
    paragraphs = [one for one in every if one.inline.text]

    def write(translations: Sequence[str]) -> bytes:
        for paragraph, said in zip(paragraphs, translations, strict=True):
            if said != paragraph.inline.text:
                paragraph.fill(said)
        new = {name: written(tree, files[name]) for name, tree in trees.items()}
        return _packed(data, {**files, **new})

    return Document([one.inline.text for one in paragraphs], write)


def _unpacked(data: bytes, most: int) -> dict[str, bytes]:
    """The files of a document by their names, if all have no more than so many bytes."""
    files = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            if sum(one.file_size for one in packed.infolist()) > most:
                raise DataError(f"the document has more than {most:,} bytes unpacked: cut it up")
            for one in packed.infolist():
                if one.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise DataError("the document is packed otherwise than Word does: save it "
                                    "again as .docx")  # fmt: skip
                with packed.open(one) as opened:  # no more than it says is unpacked
                    files[one.filename] = opened.read(one.file_size)
            return files
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, RuntimeError) as error:
        raise DataError(f"the document is damaged, encrypted, or no .docx ({error})") from error


def _packed(data: bytes, files: dict[str, bytes]) -> bytes:
    """The document with this content of its files."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as before, zipfile.ZipFile(made, "w") as after:
        for one in before.infolist():
            after.writestr(one, files[one.filename], one.compress_type)
    return made.getvalue()


@dataclass(eq=False)
class Stretch:
    """What encloses some text.

    Attributes:
        look: properties of the text's runs.
        holder: element around them, if there is one.
        before, after: what begins and ends it.
    """

    look: Element | None
    holder: Element | None = None
    before: list[Element] = field(default_factory=list)
    after: list[Element] = field(default_factory=list)


class Paragraph:
    """A paragraph: its text with codes, and how a translation becomes runs of it."""

    def __init__(self, element: Element):
        self._element = element
        self._look, parts = _parts(element)
        self.inline = Inline(parts)

    def fill(self, translation: str) -> None:
        """Write a translation in the place of the text."""
        _empty(self._element)
        holders, looks = [self._element], [self._look]
        for part in self.inline.fill(translation):
            if isinstance(part, str):
                holders[-1].append(_run(self._element, part, looks[-1]))
            elif part.kind == "open":
                holders[-1].extend(part.content.before)
                looks.append(part.content.look)
                if (holder := part.content.holder) is not None:
                    _empty(holder)
                    holders[-1].append(holder)
                    holders.append(holder)
            elif part.kind == "close":
                looks.pop()
                if part.content.holder is not None:
                    holders.pop()
                holders[-1].extend(part.content.after)
            else:
                holders[-1].extend(part.content)


def _empty(element: Element) -> None:
    for child in list(element):
        if name_of(child) not in PROPERTIES:
            element.remove(child)


def _run(like: Element, text: str, look: Element | None) -> Element:
    """A run of a text, in the namespace of another element."""
    namespace = etree.QName(like).namespace
    run = etree.Element(etree.QName(namespace, "r"))
    if look is not None:
        run.append(deepcopy(look))
    own = etree.SubElement(run, etree.QName(namespace, "t"))
    own.text = text
    own.set(SPACE, "preserve")
    return run


def _parts(element: Element) -> tuple[Element | None, list[Part]]:
    """The look of most text of an element, and its text and codes."""
    pieces = list(_pieces(element))
    counts: Counter[bytes] = Counter()
    looks: dict[bytes, Element | None] = {}
    for piece in pieces:
        if isinstance(piece, Text):
            looks.setdefault(piece.key, piece.look)
            counts[piece.key] += len(piece.text)
    usual = max(counts, key=counts.__getitem__, default=b"")
    parts: list[Part] = []
    for key, group in groupby(pieces, lambda one: one.key if isinstance(one, Text) else usual):
        inside = [one.text if isinstance(one, Text) else one for one in group]
        stretch = Stretch(looks.get(key))
        codes = [Code("open", stretch), Code("close", stretch)]
        parts += inside if key == usual else [codes[0], *inside, codes[1]]
    for part in parts:
        if isinstance(part, Code) and part.kind == "open" and part.content.look is None:
            part.content.look = looks.get(usual)  # of a field that is a link
    return looks.get(usual), parts


@dataclass(frozen=True)
class Text:
    """Text of one look; its key is that of all that looks so."""

    text: str
    look: Element | None

    @property
    def key(self) -> bytes:
        seen = () if self.look is None else self.look
        return b"".join(etree.tostring(one, with_tail=False) for one in seen
                        if name_of(one) not in UNSEEN)  # fmt: skip


def _pieces(element: Element) -> Iterator[Text | Part]:
    """The text of an element with its look, and codes."""
    field_runs: list[Element] = []
    depth, link = 0, None
    for child in element:
        name, marks = name_of(child), _field_marks(child)
        if name in PROPERTIES or name == "proofErr":
            continue
        if depth or "begin" in marks:
            field_runs.append(child)
            depth += marks.count("begin") - marks.count("end")
            if depth == 1 and "separate" in marks and _is_link(field_runs):
                link, depth = Stretch(None, before=field_runs), 0
                yield Code("open", link)
            elif depth == 0:
                yield Code("alone", field_runs)
            if depth == 0:
                field_runs = []
        elif link and "end" in marks:
            link.after.append(child)
            yield Code("close", link)
            link = None
        elif name == "r":
            yield from _of_run(child)
        elif name in PAIRED and child.find(".//{*}t") is not None:
            look, parts = _parts(child)
            holder = Stretch(look, holder=child)
            yield from [Code("open", holder), *parts, Code("close", holder)]
        else:
            yield Code("alone", [child])
    if field_runs:  # it goes on in the next paragraph
        yield Code("alone", field_runs)
    if link:
        yield Code("close", link)


def _is_link(field_runs: Sequence[Element]) -> bool:
    return any("HYPERLINK" in text for run in field_runs for text in run.itertext("{*}instrText"))


def _field_marks(run: Element) -> list[str]:
    """What a run begins or ends of a field: begin, separate, end."""
    return [value for one in run.findall("{*}fldChar") for name, value in one.items()
            if name.endswith("}fldCharType")]  # fmt: skip


def _of_run(run: Element) -> Iterator[Text | Code]:
    look = run.find("{*}rPr")
    children = [one for one in run if one is not look and name_of(one) != "lastRenderedPageBreak"]
    if not {name_of(one) for one in children} <= {"t", *BREAKS, *LETTERS}:
        yield Code("alone", [run])
        return
    for child in children:
        name = name_of(child)
        if name in BREAKS:
            alone = _run(run, "", look)
            alone[-1] = deepcopy(child)
            yield Code("break", [alone])
        else:
            yield Text(LETTERS.get(name, child.text or ""), look)
