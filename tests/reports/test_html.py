"""The page as a file: what is read without a script, that nothing in it is anybody's but ours, and what it holds."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

from harness.reports.html import GLYPHS, REPORT
from harness.results import (
    Blame,
    Checkout,
    CheckResult,
    DetailCounts,
    Difference,
    FindingBody,
    Presentation,
    Rate,
    RunResult,
    Verdict,
)
from tests.reports.runs import HOSTILE, cell, failed, finding, hostile, page_data, red, talking, two_causes, whole_suite

_NAMES = """
html head meta title style body header h1 span p nav a main section article h2 h3 h4 details summary b code pre mark
dl dt dd div table caption thead tbody tr th td form label input fieldset legend output bdi ul li script
noscript kbd button select option wbr
"""
OURS = frozenset(_NAMES.split())
"""The elements that the template has."""


class Page(HTMLParser):
    """A page taken apart: its elements with their attributes, and the text that is to be read of it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.inside: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        last = self._open[-1] if self._open else ""
        self.inside.setdefault(last, []).append(data)
        if last not in ("script", "style", "title"):
            self.words.append(data)


@cache
def shown(made: str) -> tuple[str, Page]:
    run = {"red": red, "causes": two_causes, "hostile": hostile, "talking": talking, "suite": whole_suite}[made]()
    text = REPORT.render(run, Presentation())
    return text, Page(text)


def test_the_page_is_readable_without_its_script() -> None:
    _, page = shown("causes")

    for words in (
        "FAIL 4 cells (whole): 1 note, 3 fail.",
        "hands on 'id_0'. issued-id-lost : 2 cells; 1 fails only for this",
        "In response 1 /content/0/id actual",
        'actual "id_0" expected "call_1"',
        '> "id": "call_1"',
        "and 3 that follow from it: chat-refused (2), exchange-unplayed",
        "What to do: Return the `id` of the `tool_use` block as `ToolCall.id`.",
        "harness show --variant whole call-parallel --target anthropic",
        "2 of 3 properties differ between targets.",
        "its place /system a message",
        "Answers of the reference server: 4 cells of anthropic (a-model-1), openai-chat",
        "setting-uninvited",
    ):
        assert words in page.text
    assert ("a", "#cell/call-parallel/anthropic/whole") in [(tag, had.get("href")) for tag, had in page.elements]


def test_everything_that_is_no_pass_is_there() -> None:
    _, page = shown("red")

    for words in (
        "error : KeyError: 'text'",
        "Not checked: no cassette result-null : anthropic",
        "harness run --mode reference result-null --target anthropic",
        "gemini-3 thinking it does not think",
        "tracked as #12 : result-null · gemini-3",
        "usage in call-* , anthropic (listed because: tracked as #7 )",
        "openai-chat is left out : its SDK is missing",
        "httpx2 2.16.0",
        "The conversations of cells are not in this run",
    ):
        assert words in page.text


def test_the_policy_allows_only_our_script_and_style() -> None:
    for made in ("causes", "hostile"):
        text, page = shown(made)
        policy = next(had["content"] for _, had in page.elements if had.get("http-equiv") == "Content-Security-Policy")
        digests = [
            base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
            for part in (*re.findall(r"<script>(.*?)</script>", text, re.DOTALL), *page.inside["style"])
        ]
        assert policy == (
            f"default-src 'none'; script-src 'sha256-{digests[0]}'; style-src 'sha256-{digests[1]}'; "
            "base-uri 'none'; form-action 'none'"
        )


def test_no_element_and_no_attribute_comes_from_a_text() -> None:
    text, page = shown("hostile")

    assert {tag for tag, _ in page.elements} <= OURS
    for tag, had in page.elements:
        assert not [name for name in had if name.startswith("on") or name in ("src", "style", "srcset", "action")]
        if "href" in had:
            assert tag == "a"
            assert had["href"].startswith("#")
    assert [tag for tag, _ in page.elements if tag == "script"] == ["script", "script"]
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert "{{ 7 * 7 }}" in page.text


def test_the_data_is_what_was_said_to_the_letter() -> None:
    text, _ = shown("hostile")

    held = page_data(text)
    assert HOSTILE in held["texts"]
    assert "12345678901234567890" in held["texts"]
    assert "1.0" in held["texts"]


def test_what_is_said_twice_is_held_once() -> None:
    text, _ = shown("talking")

    held = page_data(text)
    assert len(set(map(str, held["texts"]))) == len(held["texts"])
    assert sum("Weather in Paris?" in str(each) for each in held["texts"]) == 2  # once as text, once on the wire
    assert len(held["bodies"]) == 5  # two first requests and all answers are alike


def test_empty_and_unfinished_runs_have_a_page() -> None:
    nothing = RunResult("replay", ())
    assert "NOTHING RAN" in Page(REPORT.render(nothing, Presentation())).text
    assert "UNFINISHED interrupted" in Page(REPORT.render(replace(red(), stopped="interrupted"), Presentation())).text


def test_what_changed_since_another_run_comes_first() -> None:
    now, before = talking(), replace(talking(), cells=talking().cells[1:])
    text = REPORT.render(now, Presentation(against=(before,)))

    page = Page(text)
    assert "What changed Changed: 1 cell, 1 cause. Worse, or new and bad: 1 cell." in page.text
    assert '<a href="#cell/call-single/anthropic/whole">call-single [whole], anthropic</a>' in text
    assert page.text.index("Changed: 1") < page.text.index("What to do:")
    same = Page(REPORT.render(now, Presentation(against=(now,))))
    assert "Nothing changed except times and versions." in same.text


def test_every_verdict_has_a_mark() -> None:
    assert set(GLYPHS) == set(Verdict)
    assert len(set(GLYPHS.values())) == len(GLYPHS)


def test_a_gateway_check_is_shown() -> None:
    client = FindingBody("the client's request", '{"top_k": 5}', "/top_k", ("/:", "  {", '>   "top_k": 5', "  }"))
    lost = finding(
        "gateway-fact-lost", blame=Blame.GATEWAY, bodies=(client, FindingBody("the upstream's request", "{}"))
    )
    unclear = cell("calls", verdict=Verdict.INCONCLUSIVE, reason="the model called nothing")
    counts = DetailCounts("anthropic", "openai-chat", "top_k", of_answer=False, preserved=3, lost=1)
    checked = CheckResult(rates=(Rate("calls in parallel", "mine", 2, 4, 0.15, 0.85),), gateway=(counts,))

    text = REPORT.render(
        RunResult("reference", (failed("a", "anthropic", lost), unclear), check=checked), Presentation()
    )

    page = Page(text)
    for words in (
        "the client's request /: { > \"top_k\": 5 } the upstream's request {}",
        "Inconclusive: 1 cell Neither right nor wrong",
        "the model called nothing : calls · anthropic",
        "detail anthropic>openai-chat top_k 3 preserved , 1 lost",
        "calls in parallel: 2 of 4 (50%; between 15% and 85%)",
    ):
        assert words in page.text
    assert "the client's request" in page_data(text)["texts"]


def test_panels_show_how_several_targets_differ_in_what_users_ask_for_first() -> None:
    place = Difference("system-prompt", "where it is", {"anthropic": "system", "gemini-4": "instruction"}, differs=True)
    same = Difference("json-mode", "JSON mode", {"anthropic": "none", "gemini-4": "none"}, differs=False)
    two = RunResult("replay", (cell(), cell(target="gemini-4")), differences=(place, same))
    one = replace(two, cells=(cell(),), differences=(replace(place, values={"anthropic": "system"}, differs=False),))

    text = Page(REPORT.render(two, Presentation())).text
    meaning = "System prompt Where the instructions for the model are in a request. where it is"
    assert f"How the targets differ {meaning} anthropic system gemini-4 instruction" in text
    assert "JSON mode How a request makes the model answer in JSON. JSON mode anthropic, gemini-4 none" in text
    alone = Page(REPORT.render(one, Presentation())).text
    assert f"What anthropic sends {meaning} anthropic system" in alone


def test_the_head_names_project_commit_date_and_mode() -> None:
    run = replace(
        talking(), checkout=Checkout("shop", "0123abcdef"), played_at="2026-11-26T18:03:37+00:00", versions={"x": "1.2"}
    )

    text = Page(REPORT.render(run, Presentation())).text

    head = "project shop commit 0123abcdef date 2026-11-26 18:03 UTC mode replay: recorded answers versions x 1.2"
    assert head in text


def test_a_cause_has_the_wrong_and_the_right_request_side_by_side() -> None:
    wrong = FindingBody("the request that was sent", "", "", ('    "role": "tool"', '>   "content": "1"'))
    right = FindingBody("the request of the shipped adapter x", "{}", "", ('    "role": "tool"', '>   "content": "18"'))
    stream = FindingBody("the raw stream of response 1", "data: x", "", ("1 events", "> data: x"))
    run = RunResult("replay", (failed("a", "anthropic", finding(exhibits=(stream, wrong, right))),))

    text = REPORT.render(run, Presentation())
    page = Page(text)

    assert '✕ Wrong: the request that was sent "role": "tool" > "content": "1" ✓ Right: the request of the' in page.text
    assert "<mark>&gt;   &#34;content&#34;: &#34;18&#34;</mark>" in text
    assert "<details><summary>The raw stream of response 1.</summary>" in text


def test_several_earlier_runs_are_a_history() -> None:
    runs = [
        replace(talking(), played_at=f"2026-11-{day}T10:00:00+00:00", checkout=Checkout("x", f"c{day}"))
        for day in ("20", "21", "22")
    ]
    fixed = replace(runs[2], cells=runs[2].cells[1:])

    text = Page(REPORT.render(fixed, Presentation(against=(runs[0], runs[1])))).text

    assert "What changed since 2026-11-21 10:00 UTC" in text
    assert "History of 3 runs" in text
    assert "2026-11-20 10:00 UTC c20 replay 5 ✓ 3 ✕ 1 – 1" in text
    assert "2026-11-22 10:00 UTC this run c22 replay 4 ✓ 3 0 – 1" in text
    assert "The result of one call is sent as that of another. result-id" in text
    assert "1 1 –" in text.rsplit("result-id (error", 1)[1]
