"""Faults that only a recording shows: the adapter no longer sends what it sent then."""

from __future__ import annotations

from dataclasses import replace

from tests.broken.fault import Fault, answers, posts, sends
from tests.broken.places import BODY, RESULT_CONTENT, TOOL
from tests.broken.requests import twice_versioned
from tests.broken.responses import without_calls
from tests.broken.results import contents
from tests.broken.tools import tools

REPLAYED = (
    Fault("version-twice-since", posts(twice_versioned), "call-not-needed", "path-unknown", BODY, 0),
    Fault(
        "description-changed-since",
        tools(lambda t: replace(t, description="Weather.")),
        "call-single",
        "recorded-request",
        TOOL,
        0,
    ),
    Fault("result-changed-since", contents(lambda _: "sleet"), "call-single", "recorded-request", RESULT_CONTENT),
    Fault("calls-lost-since", answers(without_calls), "call-single", "exchange-unplayed", None, None),
    Fault("asks-twice-since", sends(lambda *_: None, times=2), "call-not-needed", "request-unexpected", BODY, 1),
)
