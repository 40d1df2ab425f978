"""XML for the formats that use it, parsed so that no document can harm its reader."""

from __future__ import annotations

import codecs

from lxml import etree

from seq2seq.errors import DataError

Element = etree._Element


def parsed(data: bytes) -> etree._ElementTree:
    """Parse a document without a DTD and without loading anything from elsewhere.

    Raises:
        DataError: the document is damaged, or has a DOCTYPE.
    """
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    try:
        tree = etree.fromstring(data, parser).getroottree()
    except (etree.XMLSyntaxError, ValueError) as error:
        raise DataError(f"the document is damaged: its XML cannot be read ({error})") from error
    if tree.docinfo.internalDTD is not None:  # its entities could fill the memory
        raise DataError("the document has a DOCTYPE, whose entities may fill the memory: remove it")
    return tree


def name_of(element: Element) -> str:
    """Return the name of an element without its namespace; empty for comments and the like."""
    return etree.QName(element).localname if isinstance(element.tag, str) else ""


def written(tree: etree._ElementTree, like: bytes) -> bytes:
    """Serialise a document with the byte order mark, encoding and line ends of the bytes `like`."""
    info, encoding = tree.docinfo, tree.docinfo.encoding or "utf-8"
    mark = codecs.BOM_UTF8 * like.startswith(codecs.BOM_UTF8)
    before = like.removeprefix(mark).decode(encoding)
    data = etree.tostring(
        tree, encoding=encoding, xml_declaration=before.startswith("<?xml"),
        standalone=info.standalone if "standalone" in before[:200] else None,
    )  # fmt: skip
    text = data.decode(encoding) + "\n" * before.endswith("\n")
    return mark + (text.replace("\n", "\r\n") if "\r\n" in before else text).encode(encoding)
