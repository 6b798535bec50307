from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.contract.errors import ScenarioError
from harness.scenarios.load import load_file
from tests.scenarios.files import ABSENT, MINIMAL, changed, scenario, written

EMBEDDED: dict[str, Any] = {
    "version": 1,
    "id": "embedded",
    "title": "Texts become vectors",
    "covers": ["embeddings"],
    "requires": ["embeddings"],
    "variants": ["whole"],
    "embeddings": {
        "dimensions": 128,
        "texts": ["a"],
        "queries": [{"text": "b"}, {"text": "c", "indexed_with": {"provider": "there"}}],
    },
}


def test_texts_and_queries_are_read(tmp_path: Path) -> None:
    spec = scenario(tmp_path, EMBEDDED).embeddings
    assert spec is not None
    assert (spec.dimensions, spec.texts) == (128, ["a"])
    assert [query.text for query in spec.queries] == ["b", "c"]
    assert spec.queries[1].indexed_with is not None
    assert spec.queries[1].indexed_with.provider == "there"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (changed(MINIMAL, "turns", ABSENT), "give turns or embeddings, and not both."),
        (changed(EMBEDDED, "turns", MINIMAL["turns"]), "give turns or embeddings, and not both."),
        (changed(EMBEDDED, "requires", []), "the scenario uses 'embeddings'. Add it here."),
        (
            changed(EMBEDDED, "variants", ABSENT),
            "embeddings: vectors are not streamed. Add variants: [whole].",
        ),
        (
            changed(EMBEDDED, "variants", ["whole", "stream"]),
            "embeddings: vectors are not streamed. Add variants: [whole].",
        ),
        (
            changed(changed(EMBEDDED, "system", "Be brief."), "requires", ["embeddings", "system-prompt"]),
            "system: this is of conversations, and embeddings are none. Remove it.",
        ),
        (
            changed(EMBEDDED, "embeddings.texts", ["a", ""]),
            "embeddings.texts[1]: an empty text, which not every API embeds.",
        ),
        (
            changed(EMBEDDED, "embeddings.queries.0.text", ""),
            "embeddings.queries[0].text: an empty text, which not every API embeds.",
        ),
        (
            changed(EMBEDDED, "embeddings.queries.1.indexed_with", {"dimensions": 128}),
            "embeddings.queries[1].indexed_with.dimensions: 128 is what the query has too. Give another length.",
        ),
        (
            changed(EMBEDDED, "embeddings.queries.1.indexed_with", {}),
            "embeddings.queries[1].indexed_with: give provider, model or dimensions, as the index has them.",
        ),
        (changed(EMBEDDED, "embeddings.dimensions", 0), "embeddings.dimensions:"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, content: dict[str, Any], said: str) -> None:
    file = written(tmp_path, content)
    with pytest.raises(ScenarioError) as raised:
        load_file(file)
    assert said in str(raised.value)
