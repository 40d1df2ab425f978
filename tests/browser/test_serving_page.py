"""The pages of the server in a real browser, with the model that is shipped."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote

import pytest
from tiny_translator import tiny_translator

pytestmark = pytest.mark.browser
# axe.min.js, from the package axe-playwright-python or the npm package axe-core
PACKAGE = find_spec("axe_playwright_python")
AXE = os.environ.get("AXE") or (PACKAGE and Path(PACKAGE.origin).with_name("axe.min.js"))
# What chromium says of requests that tests let fail
REFUSED = "Failed to load resource: the server responded with a status of"
EXPECTED = ("Failed to load resource: net::", f"{REFUSED} 502", f"{REFUSED} 503")
PAUSE = 300  # milliseconds without typing before the page sends a request
PATIENCE = 120_000  # milliseconds until a test gives up waiting for a state of the page
TEXT = "The little bank by the river was closed. I don't know why he left the old house."


@pytest.fixture
def open_page(browser, server):
    """Opens the page; at the end there must have been no error and no request elsewhere.

    `broken`: requests to this address get no answer until `page.unroute(broken)`.
    """
    faults: list[str] = []

    def opened(width: int = 1200, scheme: str = "light", locale: str = "en-US", text: str = TEXT,
               broken: str = ""):  # fmt: skip
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, locale=locale,
        )  # fmt: skip
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda m: faults.append(m.text)
                if m.type == "error" and not m.text.startswith(EXPECTED) else None)  # fmt: skip
        page.on("request", lambda request: faults.append(request.url)
                if not request.url.startswith((server, "data:")) else None)  # fmt: skip
        page.clock.install()
        if broken:
            page.route(broken, lambda route: route.abort())
        page.goto(server)
        page.wait_for_selector("#from:not(:empty)")
        if text:
            page.fill("#source", text)
            page.wait_for_selector("#words:not(.waiting) button")
        return page

    yield opened
    for context in browser.contexts:
        context.close()
    assert not faults


def words(page):
    return page.locator("#words").inner_text()


def stop_clock(page):
    """From now on, the page's timers run only by `page.clock.run_for`."""
    page.clock.pause_at("2100-01-01")


def test_french_appears_while_one_types_and_only_pauses_are_asked_for(open_page, served):
    page, asked = open_page(text=""), []
    page.wait_for_selector("#pair:visible")  # the models are known
    page.on("request", lambda one: asked.append(one.post_data_json["text"])
            if "/v1/translate" in one.url else None)  # fmt: skip
    stop_clock(page)
    for typed, text in (("The old", "The old"), (" house", "The old house")):
        for letter in typed:
            page.clock.run_for(PAUSE - 1)
            page.locator("#source").press_sequentially(letter)
        page.clock.run_for(PAUSE)
        page.wait_for_selector("#words:not(.waiting) button")
        assert words(page) == served.quick.translate([text])[0].text
    assert asked == ["The old", "The old house"]
    page.fill("#source", "")
    page.clock.run_for(PAUSE)
    page.wait_for_selector("#words button", state="detached")


def test_a_click_on_a_word_does_not_end_the_translation_of_new_text(open_page, served):
    page, held = open_page(), []
    page.route("**/v1/translate", lambda route: held.append(route))
    page.fill("#source", "The old house.")
    while not held:
        page.wait_for_timeout(10)
    page.click("#words button")
    held[0].continue_()
    page.wait_for_selector("#words:not(.waiting)")
    assert words(page) == served.quick.translate(["The old house."])[0].text
    assert len(held) == 1


def test_a_page_without_its_server_says_so_and_works_once_it_is_back(open_page):
    page = open_page(text="", locale="fr-FR", broken="**/frontend/settings")
    page.wait_for_selector("#status:has-text('Le serveur ne répond pas')")
    assert page.locator("#into").inner_text() == "Français"
    page.unroute("**/frontend/settings")
    page.clock.fast_forward(5000)
    page.wait_for_selector("#pair:visible")
    assert page.locator("#status").inner_text() == ""
    page.fill("#source", TEXT)
    page.wait_for_selector("#words button")


@pytest.mark.parametrize(
    ("status", "headers", "said", "seconds"),
    [(502, {}, "does not answer", 5), (503, {"Retry-After": "40"}, "is busy", 40)],
)
def test_an_old_translation_is_dim_until_the_server_answers_again(
    open_page, served, status, headers, said, seconds
):
    page, asked = open_page(), []
    stop_clock(page)
    answer = {"status": status, "headers": headers, "body": "<html>of a proxy</html>"}
    page.route("**/v1/translate", lambda route: asked.append(route) or route.fulfill(**answer))
    page.fill("#source", "The old house.")
    page.clock.run_for(PAUSE)
    page.wait_for_selector(f"#status:has-text({said!r})")
    page.clock.run_for(1000 * seconds - 1)
    page.wait_for_timeout(100)  # in which a request that came too early would be seen
    assert len(asked) == 1
    assert page.locator("#words.waiting").count() == 1
    assert page.locator("#copy").is_disabled()
    page.unroute("**/v1/translate")
    page.clock.run_for(1)
    page.wait_for_selector("#words:not(.waiting)")
    assert words(page) == served.quick.translate(["The old house."])[0].text
    assert page.locator("#copy").is_enabled()
    assert page.locator("#status").inner_text() == ""


def test_what_is_typed_before_the_models_are_known_stays_and_is_translated(browser, server):
    page = browser.new_context().new_page()
    page.set_default_timeout(PATIENCE)
    held = []
    page.route("**/v1/models", lambda route: held.append(route))
    page.goto(server)
    page.wait_for_selector("#from:not(:empty)")
    page.fill("#source", TEXT)
    while not held:
        page.wait_for_timeout(10)
    held[0].continue_()
    page.wait_for_selector("#words button")
    assert page.input_value("#source") == TEXT
    page.context.close()


def test_a_word_that_is_pointed_at_shows_its_partner_and_doubt_is_shaded(open_page, served):
    page = open_page()
    [found] = served.quick.translate([TEXT], align=True)
    bank = TEXT.split().index("bank")
    number = next(t for s, t in found.alignment if s == bank)
    name = found.text.split()[number]
    partners = [TEXT.split()[s] for s, t in found.alignment if t == number]
    button = page.locator(f"#words button[data-number='{number}']")
    button.hover()
    page.wait_for_selector("#mirror .partner")
    assert page.locator("#mirror .partner").all_inner_texts() == partners == ["bank"]
    page.wait_for_selector("#mirror mark[style*='--weight: 0.']")  # its attention comes later
    weights = dict(page.eval_on_selector_all("#mirror mark", """all => all.map(
        (one) => [one.textContent, Number(one.style.getPropertyValue('--weight'))])"""))
    assert max(weights, key=weights.get) == "bank"
    assert weights["house."] == 0  # of another sentence
    assert sum(weights.values()) <= 1
    assert page.locator("#partner").inner_text().startswith(f"{name} ← bank · confidence")
    shares = page.eval_on_selector_all(
        "#words button", "all => all.map((one) => Number(one.style.getPropertyValue('--share')))")
    assert len(shares) == len(found.text.split())
    assert 0 == min(shares) < max(shares) <= 0.9
    page.mouse.move(0, 0)
    page.focus("#source")
    page.keyboard.press("Control+Home")  # the caret in a word of the source shows its partners
    page.keyboard.press("ArrowRight")
    expected = [t for s, t in found.alignment if s == 0]
    page.wait_for_selector("#words .partner")
    assert page.locator("#words .partner").count() == len(expected) > 0


def test_attention_is_asked_for_after_a_pause_and_again_after_a_failure(open_page):
    page, asked = open_page(), []
    page.route("**/v1/attention", lambda route: asked.append(route) or route.abort())
    page.evaluate("""for (const one of document.querySelectorAll("#words button"))
        one.dispatchEvent(new MouseEvent("mouseover", { bubbles: true }))""")
    while not asked:
        page.wait_for_timeout(10)
    page.wait_for_timeout(100)  # in which requests for other words would be seen
    assert [one.request.post_data_json["text"] for one in asked] == [TEXT[TEXT.index("I ") :]]
    page.unroute("**/v1/attention")
    page.locator("#words button").last.hover()
    page.wait_for_selector("#mirror mark[style*='--weight: 0.']")


def test_an_alternative_of_a_sentence_leaves_the_other_sentence_as_it_was(open_page, served):
    page = open_page()
    first, second = TEXT[: TEXT.index(" I ")], TEXT[TEXT.index("I ") :]
    rest = len(served.quick.translate([second])[0].text.split())
    prefix = served.quick.translate([first])[0].text.partition(" était")[0]
    [best] = served.quick.translate([first], prefix=prefix, banned=["était"], n_best=5, align=True)
    chosen = next(one for one in [best, *best.alternatives] if "a été" in one.text)
    size = len(chosen.text.split())

    def told() -> list[str]:
        """What the page tells of each word."""
        lines = []
        for button in page.locator("#words button").all():
            button.focus()
            lines.append(page.locator("#partner").inner_text())
        return lines

    before = told()
    page.click("#words button:has-text('était')")
    page.wait_for_selector("#which:has-text('Otherwise')")
    page.click(f"#choices button:text-is({chosen.text!r})")
    after = told()
    assert len(after) == size + rest != len(before)  # so numbers of words had to change
    assert after[size:] == before[-rest:]
    for number, word in enumerate(chosen.text.split()):
        partners = [first.split()[s] for s, t in chosen.alignment if t == number]
        assert after[number].startswith(f"{word} ← {' '.join(partners) or '–'} · confidence")
    page.focus("#words button")
    address = page.locator("#attention").get_attribute("href")
    assert json.loads(unquote(address.split("#")[1]))[:2] == [first, chosen.text]


def test_alternatives_of_the_sentence_and_from_a_word_on_by_keyboard(open_page):
    page = open_page()
    page.wait_for_selector("#choices button")
    choice = page.locator("#choices button").first
    text = choice.inner_text()
    choice.click()
    assert words(page) == text
    page.focus("#words button")
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    word = page.evaluate("document.activeElement.textContent")
    before = text.split()
    assert word == before[2]
    page.keyboard.press("Enter")
    page.wait_for_selector("#which:has-text('Otherwise')")
    for one in page.locator("#choices button").all_inner_texts():
        assert one.split()[:2] == before[:2]
        assert one.split()[2] != word
    chosen = page.evaluate("document.activeElement.textContent")  # the focus went there
    page.keyboard.press("Enter")
    assert words(page).startswith(chosen)
    assert words(page).split()[-3:] == before[-3:]  # the other sentence stayed
    assert page.locator("#spoken").inner_text() == words(page)  # which a screen reader says


def test_a_glossary_and_notes(open_page):
    page = open_page(text="")
    page.click("summary")
    page.fill("#terms", "house = demeure")
    page.fill("#source", "The old house is by the river.")
    page.wait_for_selector("#words:has-text('demeure')")
    page.fill("#source", "Ich weiß nicht, warum das Haus am Fluss geschlossen war.")
    page.wait_for_selector("#notes li:has-text('German')")


def test_another_model_can_be_chosen(open_page):
    page = open_page(text="a man reads")
    page.select_option("#model", "tiny (en → fr)")
    [found] = tiny_translator().translate(["a man reads"])
    page.wait_for_selector(f"#words:has-text({found.text.split()[0]!r})")


def test_the_interface_speaks_french_and_remembers(open_page):
    page = open_page(locale="fr-FR", text="")
    assert page.locator("summary").inner_text() == "Glossaire"
    assert page.locator("#from").inner_text() == "Anglais"
    assert page.title() == "seq2seq : traduction"
    page.click("#language")
    assert page.locator("summary").inner_text() == "Glossary"
    page.reload()
    page.wait_for_selector("#from:has-text('English')")
    assert page.evaluate("document.documentElement.lang") == "en"


def test_attention_of_any_layer_and_head(open_page):
    page = open_page()
    page.click("#attention")
    page.wait_for_selector("tbody td")
    assert page.locator("thead th").all_inner_texts()[0] == "▁The"
    assert page.locator("thead th").all_inner_texts()[-1] == "</s>"
    before = page.eval_on_selector_all("td", "all => all.map((one) => one.title)")
    page.select_option("#layer", index=1)
    page.select_option("#head", index=2)
    after = page.eval_on_selector_all("td", "all => all.map((one) => one.title)")
    assert len(before) == len(after)
    assert before != after
    page.click("text=Back")
    page.wait_for_selector("#words button")
    assert page.input_value("#source") == TEXT


@pytest.mark.parametrize("address", ["", "#null", "#%E0", "#5"])
def test_without_a_sentence_the_page_of_attention_says_so(open_page, server, address):
    page = open_page(text="")
    page.goto(f"{server}/attention{address}")
    page.wait_for_selector("#status:has-text('Translate a sentence first.')")


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (390, "dark"), (1200, "dark")])
def test_pages_fit_and_can_be_read(open_page, width, scheme):
    page = open_page(width, scheme)
    for step in ("first", "attention"):
        if step == "attention":
            page.click("#attention")
            page.wait_for_selector("tbody td")
        assert page.evaluate("document.documentElement.scrollWidth") == width
        if AXE:
            page.evaluate(Path(AXE).read_text(encoding="utf-8"))
            found = page.evaluate("async () => (await axe.run()).violations")
            told = [(one["id"], [n["html"] for n in one["nodes"]]) for one in found]
            assert not told
