"""What the JSON report of a run looks like, as a JSON Schema: from the fields of its values, and where it differs."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from harness.results.run import RunResult, Verdict

_TIMING = {
    "description": "All that may change when a run is repeated: when it was played, seconds in all and by cell.",
    "properties": {
        "at": {"type": "string", "format": "date-time"},
        "seconds": {"type": "number"},
        "cells": {"type": "object", "additionalProperties": {"type": "number"}},
    },
    "type": "object",
}


def json_schema() -> dict[str, Any]:
    """The JSON Schema of what `--report json` and `--report archive` write."""
    schema = TypeAdapter(RunResult).json_schema(mode="serialization")
    del schema["properties"]["played_at"], schema["$defs"]["CellResult"]["properties"]["seconds"]  # they are times
    schema["properties"] |= {
        "finished": {"description": "Whether every cell of the run was played.", "type": "boolean"},
        "summary": {
            "description": "How many cells ended in each verdict.",
            "properties": {verdict.value: {"type": "integer"} for verdict in Verdict},
            "type": "object",
            "additionalProperties": False,
        },
        "costs": {"additionalProperties": {"$ref": "#/$defs/Spending"}, "type": "object"},
        "timing": _TIMING,
    }
    schema["required"] = [*schema["required"], "finished", "summary", "costs", "timing"]
    named = {"title": "harness results", "additionalProperties": False}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, **named}
