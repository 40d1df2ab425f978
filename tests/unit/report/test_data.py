"""The report says what it was given: in JSON, as text, and on a page that is sound HTML."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from xml.etree import ElementTree

import numpy as np
import pytest
from html_elements import Page

from seq2seq.config import FILTERS, CleaningConfig
from seq2seq.data.report import Report, read_report, write_report
from seq2seq.html_page import LONGEST, shown
from seq2seq.report.data import (
    MEANINGS,
    duration,
    in_words,
    length_chart,
    percent,
    ratio_chart,
    report_page,
    write_page,
)

NASTY = "<script>alert('x')</script> & \"quotes\" \x00\u202e\udc80 \\udc80 é 𝄞\n</td>"
SOURCE = [3, 3, 4, 7, 1, 2, 2, 9, 9, 5]  # lengths of ten sentences, and of their translations
TARGET = [4, 4, 4, 8, 2, 2, 3, 9, 11, 30]


def make(**changes: object) -> Report:
    report = Report(
        name="a corpus",
        fingerprint="0123456789abcdef",
        settings={"data": {"path": "<b>"}, "cleaning": asdict(CleaningConfig()), "tokenizer": {}},
        files=[{"member": "one", "file": "one.tsv", "pairs": 12345,
                "dropped": {"markup": 300, "empty": 45}}],
        read=12345,
        kept=12000,
        dropped=dict.fromkeys(FILTERS, 0) | {"empty": 45, "markup": 300},
        examples={"empty": [["", " "]], "markup": [[NASTY, NASTY * 1000]] * 3},
        words=[100, 200],
        characters=[500, 1000],
        tokens=[150, 250],
        lengths=[np.bincount(SOURCE).tolist(), np.bincount(np.minimum(TARGET, 20)).tolist()],
        ratios=[*range(41)],
        vocabulary=[
            {"name": "source", "size": 50, "used": 40, "rare": 20, "counts": [[1, 90], [40, 1]]},
            {"name": "target", "size": 60, "used": 3, "rare": 59, "counts": [[1, 70], [60, 0]]},
        ],
        overlap=[{"split": "val", "pairs": 40, "in_training": 3}],
        samples=[["A house.", NASTY]] * 10,
        mixture=[
            {"member": "one", "pairs": 9000, "weight": 1.0, "share": 0.6},
            {"member": "two", "pairs": 3000, "weight": 2.0, "share": 0.4},
        ],
        seconds={"clean": 100.0, "duplicates": 20.0, "tokenizer": 3.0, "tokenise": 0.45},
    )
    return replace(report, **changes)  # type: ignore[arg-type]


def nothing() -> Report:
    """Of a corpus without a single pair."""
    vocabulary = [{"name": "joint", "size": 0, "used": 0, "rare": 0, "counts": []}]
    return make(
        **{"read": 0, "kept": 0, "dropped": {}, "examples": {}, "files": [], "settings": {}},
        **{"words": [0, 0], "characters": [0, 0], "tokens": [0, 0], "lengths": [[], [0]]},
        **{"ratios": [0] * 41, "vocabulary": vocabulary, "overlap": [], "samples": []},
        **{"mixture": [], "seconds": {}},
    )


@pytest.fixture(scope="module")
def page_text() -> str:
    return report_page(make())


@pytest.fixture(scope="module")
def page(page_text) -> Page:
    return Page(page_text)


@pytest.mark.parametrize("report", [make(), nothing()], ids=["usual", "empty"])
def test_files_are_written_whole_and_read_again(report, tmp_path):
    write_report(report, tmp_path / "new")
    assert read_report(tmp_path / "new") == report
    page = write_page(tmp_path / "new")
    assert page.read_text(encoding="utf-8") == report_page(report)
    page.write_text("drawn once", encoding="utf-8")
    assert write_page(tmp_path / "new").read_text(encoding="utf-8") == "drawn once"
    write_report(report, tmp_path / "new")  # the page may be of other figures
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["report.json"]


def test_json_is_plain_and_keeps_the_order_of_the_filters(tmp_path):
    write_report(make(), tmp_path)
    record = json.loads((tmp_path / "report.json").read_bytes())
    assert record == asdict(make())
    assert list(record["dropped"]) == list(FILTERS)


@pytest.mark.parametrize("share", [0.0001, 0.1, 0.5, 0.77, 0.95, 1.0])
def test_length_is_a_quantile(share):
    for side, lengths in enumerate((SOURCE, np.minimum(TARGET, 20))):
        expected = np.quantile(lengths, share, method="inverted_cdf")
        assert make().length(side, share) == expected


def row(text: str, name: str) -> list[str]:
    """The cells right of a name that a row of a table begins with."""
    [line] = [line for line in text.splitlines() if line.startswith(f"| {name} ")]
    return [cell.strip() for cell in line.split("|")[2:-1]]


def test_text_has_the_numbers():
    text = in_words(make())
    assert "12,345 pairs read, 12,000 kept (97.21%)" in text
    assert row(text, "markup") == ["300", "2.43%"]
    assert row(text, "symbols") == ["0", "0.00%"]
    assert row(text, "tokens per word") == ["1.50", "1.25"]
    assert row(text, "characters per token") == ["3.33", "4.00"]
    assert row(text, "sentence length: median") == ["3", "4"]
    assert row(text, "sentence length: longest") == ["9+", "20+"]
    assert row(text, "source") == ["50", "40", "80.00%", "20", "40.00%"]
    assert row(text, "val") == ["40", "3", "7.50%"]
    assert row(text, "two") == ["3,000", "2", "40.00%"]
    assert "100 pairs read per second" in text
    assert "0123456789abcdef" in text


def test_the_page_tells_what_each_file_loses(page_text):
    assert "markup 300, empty 45" in page_text
    older = {"member": "one", "file": "one.tsv", "pairs": 12345}
    assert "one.tsv" in report_page(make(files=[older]))


def test_columns_of_the_text_are_aligned():
    huge = make(words=[10**12, 10**12], tokens=[10**12, 1], read=10**12, files=[])
    _, *tables = in_words(huge).split("\n## ")
    assert len(tables) == 6
    for table in tables:
        assert len({len(line) for line in table.splitlines() if line.startswith("|")}) == 1


def test_one_member_is_no_mixture():
    one = make(mixture=make().mixture[:1])
    assert "Mixture" in in_words(make())
    assert "Mixture" not in in_words(one) + Page(report_page(one)).text


@pytest.mark.parametrize(
    ("part", "whole", "expected"),
    [(1, 3, "33.33%"), (0, 9, "0.00%"), (1, 10**6, "<0.01%"), (3, 3, "100.00%"), (0, 0, "-")],
)
def test_percent(part, whole, expected):
    assert percent(part, whole) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.04, "0.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 00 s"),
        (3599.6, "1 h 00 min"),
        (90061, "25 h 01 min"),
    ],
)
def test_duration(seconds, expected):
    assert duration(seconds) == expected


def test_page_is_self_contained(page_text, page):
    assert page.tags["script"] == page.tags["link"] == page.tags["img"] == page.tags["iframe"] == 0
    assert not page.values("src")
    assert all(link.startswith("#") for link in page.values("href") + page.values("xlink:href"))
    assert "@import" not in page_text
    assert set(re.findall(r"url\((.)", page_text)) <= {"#"}
    assert len(page_text.encode("utf-8", "backslashreplace")) < 300_000


def test_page_escapes_all_text(page_text, page):
    assert "<script>alert('x')</script> & \"quotes\" ‹U+0000›‹U+202E›‹U+DC80›" in page.text
    assert "path: <b>" in page.text
    assert not set(page_text) & {"\x00", "\u202e", "\udc80"}


def test_page_stays_small_whatever_the_texts_are():
    worst = ['"' * 10**5, "\u202e" * 10**5]
    report = make(
        examples={reason: [worst] * 3 for reason in FILTERS},
        samples=[worst] * 10,
        files=[{"member": "one", "file": f"part-{i:05}.parquet", "pairs": 1} for i in range(5000)],
        lengths=[[1] * 2000] * 2,
    )
    assert len(report_page(report).encode()) < 400_000


def test_page_has_the_numbers(page):
    for number in (
        "12,345",
        "12,000",
        "345",
        "97.21%",
        "300",
        "2.43%",
        "7.50%",
        "0123456789abcdef",
    ):
        assert number in page.text
    assert "tags, entities or templates of web pages and wikis" in page.text
    assert page.tags["details"] == len(FILTERS)


def test_every_filter_is_explained():
    assert set(MEANINGS) == set(FILTERS)
    assert all(meaning.endswith(".") for meaning in MEANINGS.values())


def test_long_texts_are_shortened_and_blank_ones_named():
    assert shown("é" * LONGEST) == "é" * LONGEST
    assert shown("é" * 1234) == "é" * LONGEST + "… <i>(1,234 characters)</i>"
    assert shown("") == "<i>(empty)</i>"
    assert shown(" \t") == "<i>(only spaces)</i>"


def test_plots_have_text_unique_ids_and_colours_of_the_page(page_text, page):
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    used = {link[1:] for link in page.values("xlink:href") + page.values("href")}
    used |= set(re.findall(r"url\(#([^)]+)\)", page_text))
    assert used <= set(ids)
    plots = re.findall(r'<svg role="img".*?</svg>', page_text, re.DOTALL)
    assert len(plots) == 2
    for plot in plots:
        root = ElementTree.fromstring(plot)
        assert root.get("role") == "img"
        assert len(root.get("aria-label", "")) > 20
        # Other colours would vanish in the dark. White is never drawn: nothing has a background.
        assert set(re.findall(r"#[0-9a-f]{6}\b", plot)) <= {"#ffffff"}


def test_plots_show_the_histograms():
    source, target = length_chart(make(lengths=[[0, 5, 3, 1], [0, 0, 2, 7]])).lines
    assert source.points == [(0, 0), (1, 5), (2, 3), (3, 1), (4, 0)]
    assert target.points == [(0, 0), (1, 0), (2, 2), (3, 7), (4, 0)]
    label = re.search('aria-label="(.*?)"', ratio_chart(make()).svg)
    assert label is not None
    assert label[1] == "Length ratios: most pairs, 40, at 4.00"
