"""Pages in a real browser: nothing overflows, nothing is fetched, what moves does."""

from __future__ import annotations

from pathlib import Path

import pytest
from example_run import NASTY, evaluation, write_run

from seq2seq.data.fingerprint import text_fingerprint
from seq2seq.evaluation.record import TextFile
from seq2seq.report.page import write_report

pytestmark = pytest.mark.browser

TEXTS = {
    "sources": ["a short one", "the second line is longer", NASTY.split("\u202e")[0].strip()],
    "references": ["une courte", "la deuxième ligne est plus longue", "é"],
    "hypotheses": ["une courte", "rien de cela", NASTY.split("\u202e")[0].strip()],
}


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    """Of two runs, one of which has the texts of its evaluation."""
    folder = tmp_path_factory.mktemp("runs")
    runs = [write_run(folder / name) for name in ("first", "second")]
    place, files = runs[0] / "evaluation/starter-test", {}
    for role, lines in TEXTS.items():
        (place / f"{role}.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")
        files[role] = TextFile(f"{role}.txt", text_fingerprint(lines))
    record = evaluation()
    record.files.update(files)
    record.write(place / "evaluation.json")
    write_report(runs, folder / "report.html")
    return folder / "report.html"


@pytest.fixture
def open_page(browser, report):
    """Opens the report; at the end there must have been no error and no request."""
    faults: list[str] = []

    def opened(width: int = 1200, scheme: str = "light"):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme
        )
        page = context.new_page()
        page.set_default_timeout(120_000)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("dialog", lambda dialog: faults.append(f"dialog {dialog.message}"))
        page.on("request", lambda request: faults.append(request.url)
                if not request.url.startswith("file:") else None)  # fmt: skip
        page.goto(report.as_uri())
        return page

    yield opened
    assert not faults


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 800, 1200])
def test_nothing_is_wider_than_the_window(open_page, width, scheme):
    page = open_page(width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_curves_and_their_numbers_can_be_read_on_the_background(open_page, scheme):
    """Contrast of 3 for lines and 4.5 for text, as WCAG asks for."""
    page = open_page(scheme=scheme)
    contrasts = page.evaluate("""() => {
        const luminance = (text) => {
            const parts = text.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255);
            const [r, g, b] = parts.map(
                (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const back = luminance(getComputedStyle(document.body).backgroundColor);
        const contrast = (text) => {
            const own = luminance(text);
            return (Math.max(own, back) + 0.05) / (Math.min(own, back) + 0.05);
        };
        const chart = document.querySelector(".chart svg");
        const of = (selector, property) => [...chart.querySelectorAll(selector)].map(
            (element) => contrast(getComputedStyle(element)[property]));
        return { text: of("text", "fill"),
                 lines: of("g[id*=line2d] > path[clip-path]", "stroke") };
    }""")
    assert len(contrasts["text"]) > 5
    assert min(contrasts["text"]) >= 4.5
    assert max(contrasts["lines"]) >= 3


def test_sentences_are_sorted_as_the_reader_chooses(open_page):
    page = open_page()

    def numbers() -> list[str]:
        return page.locator(".sortable tbody tr").evaluate_all(
            "rows => rows.map((row) => row.dataset.line)"
        )

    assert numbers()[-1] == "1"  # the only one that is right
    page.select_option(".sortable select", "-chrf")
    assert numbers()[0] == "1"
    page.select_option(".sortable select", "line")
    assert numbers() == ["1", "2", "3"]
    page.select_option(".sortable select", "-length")
    assert numbers()[0] == "2"


def test_the_slider_shows_the_translations_of_its_step(open_page):
    page = open_page()
    part = page.locator(".samples").first
    assert part.locator("output").inner_text() == "40 (BLEU 20.0)"
    assert part.locator("dd[data-at='0']").first.is_hidden()
    part.locator("input[type=range]").fill("0")
    assert part.locator("output").inner_text() == "20 (BLEU 10.0)"
    assert part.locator("dd[data-at='0']").first.is_visible()
    part.locator("input[type=checkbox]").check()
    assert part.locator("dd[data-at='1']").first.is_visible()


def test_attention_of_a_chosen_head_is_drawn(open_page):
    page = open_page()
    figure = page.locator(".attention").first
    weights = "cells => cells.map((cell) => +cell.style.getPropertyValue('--w'))"
    shown = []
    for button in figure.locator(".heads button").all():
        button.click()
        cells = figure.locator(".map tbody td").evaluate_all(weights)
        shown.append(cells)
        columns = len(figure.locator(".map thead th").all())
        for start in range(0, len(cells), columns):
            assert sum(cells[start : start + columns]) == pytest.approx(1, abs=0.05)
    assert len(shown) == 6  # two layers of the mean and two heads
    assert len({tuple(cells) for cells in shown}) == 6
    mean, *heads = shown[:3]
    assert mean == pytest.approx([sum(pair) / 2 for pair in zip(*heads, strict=True)], abs=0.01)


def test_text_is_shown_as_it_is_and_never_run(open_page):
    page = open_page()
    assert "<script>alert('x')</script>" in page.locator("body").inner_text()


def test_the_page_prints(open_page):
    page = open_page()
    pdf = page.pdf(format="A4")
    assert pdf.startswith(b"%PDF")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("nav").is_hidden()
