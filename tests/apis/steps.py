"""Random answers of the reference server's model, for property tests of what the wire packages build."""

from __future__ import annotations

from hypothesis import strategies as st

from harness.apis.view import ModelStep, Provocation
from harness.model.messages import JSON, StopReason

_TEXTS = st.text(max_size=60) | st.sampled_from(
    ['"quotes"\n\\', "18 °C — 東京 👨‍👩‍👧‍👦", "a\u2028b\u2029c\u0085d", "{}", "\r\n\r\n"]
)
_VALUES: st.SearchStrategy[JSON] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=8,
)
_CALLS = st.tuples(st.sampled_from(["get_weather", "now"]), st.dictionaries(_TEXTS, _VALUES, max_size=3))


def steps(raw: list[JSON], stops: list[StopReason]) -> st.SearchStrategy[ModelStep]:
    """Answers with texts, thinking, calls, refusals, some of the wire parts `raw`, and one of the `stops` or none.
    Their streams are like recorded ones, or do all that no provider was recorded doing."""
    return st.builds(
        ModelStep,
        text=st.none() | _TEXTS,
        thinking=st.none() | _TEXTS,
        calls=st.lists(_CALLS, max_size=4).map(tuple),
        refusal=st.none() | _TEXTS,
        stop=st.none() | st.sampled_from(stops),
        raw=st.lists(st.sampled_from(raw), max_size=2).map(tuple),
        provocations=st.sampled_from([frozenset[Provocation](), frozenset(Provocation)]),
    )
