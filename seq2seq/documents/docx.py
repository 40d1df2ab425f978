"""Word documents (.docx): translate the text of all paragraphs; everything else stays unchanged.

Paragraphs of the body, of tables, text boxes, headers, footers, notes and comments are translated.
Links, and runs whose format differs from most of their paragraph, enclose the same words in the
translation. Fields, pictures, bookmarks and references to notes move along with their words.
Deleted text of tracked changes stays untranslated, and so does the result of a field, such as a
date.
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

STORY = re.compile(  # files in the archive that have paragraphs
    r"word/(document|header|footer|footnotes|endnotes|comments)\d*\.xml"
)
# Elements that hold runs of the paragraph's text, and elements with properties before the runs.
PAIRED = {"hyperlink", "ins", "moveTo", "smartTag", "sdt", "sdtContent", "dir", "bdo", "customXml"}
PROPERTIES = {"pPr", "rPr", "sdtPr", "sdtEndPr", "smartTagPr", "customXmlPr"}
BREAKS = {"tab", "br", "cr", "ptab"}
LETTERS = {"noBreakHyphen": "\u2011", "softHyphen": "\u00ad"}
UNSEEN = {"lang", "noProof"}  # properties of a run that do not change its format
SPACE = "{http://www.w3.org/XML/1998/namespace}space"


def read(data: bytes, wanted: Wanted) -> Document:
    """Read the paragraphs of a document.

    Raises:
        DataError: the document is damaged, too large unpacked, or no Word document.
    """
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
    """Unpack the files of a document, by name.

    Raises:
        DataError: the files have more than `most` bytes together, or the archive is damaged.
    """
    files = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            if sum(one.file_size for one in packed.infolist()) > most:
                raise DataError(f"the document has more than {most:,} bytes unpacked: cut it up")
            for one in packed.infolist():
                if one.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise ValueError("packed otherwise than Word does")
                with packed.open(one) as opened:  # reads no more than the declared size
                    files[one.filename] = opened.read(one.file_size)
            return files
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, RuntimeError) as error:
        raise DataError(f"the document is damaged, encrypted, or no .docx ({error})") from error


def _packed(data: bytes, files: dict[str, bytes]) -> bytes:
    """Pack the document `data` again, with new contents of its files."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as before, zipfile.ZipFile(made, "w") as after:
        for one in before.infolist():
            after.writestr(one, files[one.filename], one.compress_type)
    return made.getvalue()


@dataclass(eq=False)
class Stretch:
    """The formatting and elements around some text.

    Attributes:
        look: properties of the text's runs.
        holder: the element around the runs, if there is one.
        before, after: elements before and after the runs, such as those that begin and end a field.
    """

    look: Element | None
    holder: Element | None = None
    before: list[Element] = field(default_factory=list)
    after: list[Element] = field(default_factory=list)


class Paragraph:
    """A paragraph: its text with codes. `fill` replaces its runs with those of a translation."""

    def __init__(self, element: Element):
        self._element = element
        self._look, parts = _parts(element)
        self.inline = Inline(parts)

    def fill(self, translation: str) -> None:
        """Replace the text with a translation."""
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
    """Make a run with this text and look, in the namespace of the element `like`."""
    namespace = etree.QName(like).namespace
    run = etree.Element(etree.QName(namespace, "r"))
    if look is not None:
        run.append(deepcopy(look))
    own = etree.SubElement(run, etree.QName(namespace, "t"))
    own.text = text
    own.set(SPACE, "preserve")
    return run


def _parts(element: Element) -> tuple[Element | None, list[Part]]:
    """Return the look of most of an element's text, and the text with its codes."""
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
            part.content.look = looks.get(usual)  # the stretch of a field that is a link
    return looks.get(usual), parts


@dataclass(frozen=True)
class Text:
    """Text of one look. Texts of the same look have the same key."""

    text: str
    look: Element | None

    @property
    def key(self) -> bytes:
        seen = () if self.look is None else self.look
        return b"".join(etree.tostring(one, with_tail=False) for one in seen
                        if name_of(one) not in UNSEEN)  # fmt: skip


def _pieces(element: Element) -> Iterator[Text | Part]:
    """Yield the texts of an element, each of one look, and the codes between them."""
    field_runs: list[Element] = []
    depth, links = 0, list[Stretch]()
    for child in element:
        name, marks = name_of(child), _field_marks(child)
        if name in PROPERTIES or name == "proofErr":
            continue
        if depth or "begin" in marks:
            field_runs.append(child)
            depth += marks.count("begin") - marks.count("end")
            if depth == 1 and "separate" in marks and _shows_text(field_runs):
                links.append(Stretch(None, before=field_runs))
                depth = 0
                yield Code("open", links[-1])
            elif depth == 0:
                yield Code("alone", field_runs)
            if depth == 0:
                field_runs = []
        elif links and "end" in marks:
            links[-1].after.append(child)
            yield Code("close", links.pop())
        elif name == "r":
            yield from _of_run(child)
        elif name in PAIRED and child.find(".//{*}t") is not None:
            look, parts = _parts(child)
            holder = Stretch(look, holder=child)
            yield from [Code("open", holder), *parts, Code("close", holder)]
        else:
            yield Code("alone", [child])
    if field_runs:  # the field goes on in the next paragraph
        yield Code("alone", field_runs)
    while links:
        yield Code("close", links.pop())


def _shows_text(field_runs: Sequence[Element]) -> bool:
    """Tell whether a field shows text: a link, or a table of contents."""
    texts = (text for run in field_runs for text in run.itertext("{*}instrText"))
    return any(re.search(r"\b(?:HYPERLINK|TOC)\b", text) for text in texts)


def _field_marks(run: Element) -> list[str]:
    """Return the field marks in a run: begin, separate or end."""
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
