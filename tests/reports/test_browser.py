"""The page in a real browser: nothing of a run's texts runs or asks for anything, and its script does what it says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import pytest

from harness.reports.html import REPORT
from harness.results import Presentation, RunResult
from tests.browser import COMMAND, MISSING, Browser
from tests.reports.runs import HOSTILE, hostile, talking, two_causes

pytestmark = pytest.mark.skipif(COMMAND is None, reason=MISSING)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    made = Browser(tmp_path_factory.mktemp("browser"))
    yield made
    made.close()


Opened = Callable[..., Browser]


@pytest.fixture(scope="module")
def opened(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """Opens the page of a run."""
    folder = tmp_path_factory.mktemp("pages")

    def show(run: RunResult, fragment: str = "", **how: Any) -> Browser:
        page = folder / f"{len(list(folder.iterdir()))}.html"
        page.write_text(REPORT.render(run, Presentation()))
        browser.open(page, fragment, **how)
        return browser

    return show


def texts(browser: Browser, selector: str) -> list[str]:
    """The texts of the elements that can be seen."""
    return browser.evaluate(
        f"[...document.querySelectorAll({json.dumps(selector)})].filter(each => each.checkVisibility())"
        ".map(each => each.textContent)"
    )


CELL = "#cell/call-single/anthropic/whole"


@pytest.mark.parametrize("fragment", ["", f"#cell/{quote(HOSTILE, safe='')}/{quote(HOSTILE, safe='')}/whole"])
def test_no_text_of_a_run_runs_or_asks_for_anything(opened: Opened, fragment: str) -> None:
    page = opened(hostile(), fragment)

    assert page.evaluate("document.title") == "harness: FAIL"
    assert page.evaluate("document.documentElement.classList.contains('scripted')")
    assert [address.partition("#")[0].rpartition("/")[2][-5:] for address in page.requests] == [".html"]
    assert page.complaints == []  # the policy had nothing to refuse, either
    assert page.evaluate("document.querySelectorAll('img, script:not([id]) ~ script, [onerror], [src]').length") == 0
    assert page.evaluate("[...document.links].filter(each => !each.getAttribute('href').startsWith('#')).length") == 0
    if fragment:
        assert page.evaluate("!document.getElementById('cell').hidden")
        shown = page.evaluate("document.getElementById('cell').innerText")
        assert "<script>document.title = 'ran'</script>" in shown
        assert "\\u202etxt.exe" in shown
        assert "12345678901234567890" in shown
        assert '"one": 1.0' in shown


def test_the_policy_stops_what_would_run_all_the_same(opened: Opened) -> None:
    page = opened(talking())

    page.evaluate("document.body.append(Object.assign(document.createElement('img'), {src: 'http://127.0.0.1:9/x'}))")
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<b onclick=\"document.title = 1\" id=bad>x</b>')")
    page.evaluate("document.getElementById('bad').click()")

    assert page.evaluate("document.title") == "harness: FAIL"
    assert any("Content Security Policy" in each for each in page.complaints)


def test_a_link_opens_a_cell_with_all_exchanges(
    opened: Opened,
) -> None:
    page = opened(talking(), CELL)

    assert texts(page, "#cell h2") == ["✕ call-single · anthropic · whole: fail"]
    assert texts(page, "#overview") == []
    assert texts(page, ".talk li .who") == [
        "system", "user", "calls get_weather", "get_weather answers", "assistant",
    ]  # fmt: skip
    assert texts(page, "#cell h4") == ["anthropic", "gemini-3"] * 2
    assert texts(page, ".line.hit") == ['          "tool_use_id": "call_2",← 1 result-id']
    second = texts(page, ".side.chosen .json")[2]
    assert "… 1 line as before" in second
    assert "Weather in Paris?" not in second
    assert '"ratio": 1.0, "big": 12345678901234567890' in texts(page, ".side.chosen .json")[3]
    page.evaluate("document.querySelector('.findings button').click()")
    assert page.evaluate("document.activeElement.id") == "mark-1"
    page.evaluate("document.querySelector('#cell .bar button').click()")
    assert texts(page, "#cell h4") == ["anthropic"] * 2


def test_the_keys_lead_from_cell_to_cell_and_back(opened: Opened) -> None:
    page = opened(talking(), CELL)

    page.press("j")
    assert texts(page, "#cell h2") == ["✓ call-single · gemini-3 · whole: pass"]
    page.press("j")
    page.press("k")
    assert texts(page, "#cell h2") == ["✓ call-single · gemini-3 · whole: pass"]
    page.press("Escape")
    assert texts(page, "#cell") == []
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "call-single, gemini-3, whole: pass"
    page.press("ArrowRight")
    page.evaluate("document.getElementById('unfold').click()")
    page.press("ArrowDown")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "json-mode, anthropic, whole: pass"
    assert page.evaluate("[...document.querySelectorAll('#cells a.v')].filter(each => each.tabIndex === 0).length") == 1
    page.press("/")
    assert page.evaluate("document.activeElement.id") == "find"


def test_the_matrix_can_be_filtered(opened: Opened) -> None:
    page = opened(talking())
    rows = "#cells tr[data-about] th"

    def tick(name: str, value: str) -> None:
        page.evaluate(f"document.querySelector('input[name={name}][value=\"{value}\"]').click()")

    assert texts(page, "#shown") == ["5 of 5 cells"]
    tick("verdict", "pass")
    assert texts(page, rows) == ["call-single", "thinking"]
    tick("verdict", "not-applicable")
    assert (texts(page, rows), texts(page, "#shown")) == (["call-single"], ["1 of 5 cells"])
    tick("verdict", "pass")
    tick("target", "0")
    assert texts(page, "#cells thead th") == ["scenario", "gemini-3"]
    tick("variant", "whole")
    assert texts(page, "#cells a.v") == ["✓"]
    tick("variant", "whole")
    tick("target", "0")
    page.evaluate("document.getElementById('find').value = 'JSON'")
    page.evaluate("document.getElementById('find').dispatchEvent(new Event('input', {bubbles: true}))")
    assert texts(page, rows) == ["json-mode"]


def test_green_subjects_are_folded_until_they_are_wanted(opened: Opened) -> None:
    page = opened(talking())
    rows = "#cells tr[data-about] th"

    assert texts(page, rows) == ["call-single"]
    assert texts(page, "#cells .fold") == ["id-matching", "json-mode", "tools"]
    page.evaluate("document.querySelectorAll('#cells .fold')[1].click()")
    assert texts(page, rows) == ["call-single", "json-mode"]
    assert page.evaluate("document.querySelectorAll('#cells .fold')[1].getAttribute('aria-expanded')") == "true"
    page.evaluate("document.getElementById('unfold').click()")
    assert texts(page, rows) == ["call-single", "json-mode", "thinking"]


def test_two_targets_are_compared_by_meaning(opened: Opened) -> None:
    page = opened(talking(), "#compare")
    choices = "[...document.querySelectorAll('#pair select')].map(each => each.selectedOptions[0].textContent)"

    assert page.evaluate(choices) == ["call-single", "anthropic", "gemini-3"]
    assert texts(page, "#pair-shown h3") == ["Request 1: both say the same", "Request 2: 2 of 3 lines differ"]
    assert texts(page, "#pair-shown .differs th") == ["result of call 1", "tool choice"]
    assert texts(page, "#pair-shown .differs td") == ["18/messages/2", "19/contents/2", "nothing", '"any"/toolConfig']
    assert texts(page, "#pair-shown mark") == ["8", "9", '"any"']
    page.evaluate("document.getElementById('pair-differs').click()")
    assert texts(page, "#pair-shown th[scope=row]") == ["result of call 1", "tool choice"]


def test_common_properties_are_shown_on_request(opened: Opened) -> None:
    page = opened(talking())

    assert texts(page, "#aspects th[scope=rowgroup]") == ["system-prompt"]
    assert texts(page, "#aspects tr:not(.subject) th[scope=row]") == ["its place"]
    page.evaluate("document.getElementById('same').click()")
    assert texts(page, "#aspects tr:not(.subject) th[scope=row]") == ["its place", "word for it"]


FAINT = """
(() => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = ([red, green, blue]) => [red, green, blue].map((each) => each / 255)
    .map((each) => (each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4))
    .reduce((sum, each, at) => sum + each * [0.2126, 0.7152, 0.0722][at], 0);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const found = parts(getComputedStyle(at).backgroundColor);
      if (found.length === 3 || found[3] === 1) return found;
    }
    return [255, 255, 255];
  };
  const ratio = (element) => {
    const [one, other] = [parts(getComputedStyle(element).color), ground(element)].map(light).sort((a, b) => b - a);
    return (one + 0.05) / (other + 0.05);
  };
  return [...document.body.querySelectorAll("*")].filter((each) => each.checkVisibility()
    && [...each.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())
    && !each.matches("script, style, option") && ratio(each) < 4.5).map((each) => `${each.tagName} ${each.className}`);
})()
"""
"""The elements whose text has a contrast below 4.5, the least that WCAG 2.2 asks for at level AA (1.4.3)."""


def test_the_page_has_what_screen_readers_need(opened: Opened) -> None:
    page = opened(two_causes())

    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3, h4')].map(each => Number(each.tagName[1]))")
    assert levels[0] == 1
    assert all(later <= before + 1 for before, later in pairwise(levels)), levels
    assert page.evaluate("[...document.querySelectorAll('th:not([scope])')].length") == 0
    assert (
        page.evaluate("[...document.querySelectorAll('input, select')].filter(each => !each.labels.length).length") == 0
    )
    assert (
        page.evaluate("[...document.querySelectorAll('button, a')].filter(each => !each.textContent.trim()).length")
        == 0
    )


@pytest.mark.parametrize("width", [360, 800, 1440])
@pytest.mark.parametrize("fragment", ["", CELL])
def test_no_page_is_wider_than_the_screen_in_light_or_dark(opened: Opened, width: int, fragment: str) -> None:
    grounds: list[str] = []
    for dark in (False, True):
        page = opened(talking(), fragment, width=width, dark=dark)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert len(page.picture()) > 5_000
        assert page.evaluate(FAINT) == []
    assert grounds[0] == "rgb(255, 255, 255)"
    assert grounds[1] != grounds[0]


def test_it_is_read_without_its_script_and_printed_whole(opened: Opened) -> None:
    page = opened(talking())
    page.ask("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page = opened(talking())
        assert texts(page, "#cells a.v") == ["✕", "✓", "✓", "✓", "–"]
        assert texts(page, "#filters, #same") == []
        assert "This page's script shows the cells" in page.evaluate("document.body.innerText")
        assert len(page.ask("Page.printToPDF")["data"]) > 10_000
    finally:
        page.ask("Emulation.setScriptExecutionDisabled", value=False)


def test_a_browser_that_cannot_unpack_the_cells_says_so(opened: Opened, browser: Browser) -> None:
    script = browser.ask("Page.addScriptToEvaluateOnNewDocument", source="delete window.DecompressionStream")
    try:
        page = opened(talking())
        assert texts(page, "#cells a.v") == ["✕", "✓", "✓", "✓", "–"]
        assert texts(page, "#filters, #same") == []
        assert "This page shows the cells in newer browsers only" in page.evaluate("document.body.innerText")
    finally:
        browser.ask("Page.removeScriptToEvaluateOnNewDocument", **script)
