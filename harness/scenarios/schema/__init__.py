"""The scenario file as values. `harness.scenarios.load` reads it; this module says what may stand in it.

Every field's description goes into the JSON Schema that ships for editors.
"""

from harness.scenarios.schema.embeddings import EmbeddingsSpec, QuerySpec, RecordSpec
from harness.scenarios.schema.expectation import (
    CallMatcher,
    CountMatcher,
    ErrorMatcher,
    Expectation,
    HandlerWord,
    TextMatcher,
)
from harness.scenarios.schema.faults import FaultSpec, FaultStatus
from harness.scenarios.schema.history import HistoryCall, HistoryMessage, HistoryResult, TrimSpec
from harness.scenarios.schema.scenario import Name, Scenario, json_schema
from harness.scenarios.schema.settings import JsonSchemaSpec, NamedToolSpec, Settings, ThinkingSpec
from harness.scenarios.schema.side import SideSpec
from harness.scenarios.schema.tools import AudioSpec, FileSpec, ImageSpec, PartSpec, ResultSpec, ToolSpec, UserPartSpec
from harness.scenarios.schema.turns import StepSpec, TurnSpec
from harness.scenarios.schema.words import ErrorName, Provocation, Subject, Variant

__all__ = [
    "AudioSpec",
    "CallMatcher",
    "CountMatcher",
    "EmbeddingsSpec",
    "ErrorMatcher",
    "ErrorName",
    "Expectation",
    "FaultSpec",
    "FaultStatus",
    "FileSpec",
    "HandlerWord",
    "HistoryCall",
    "HistoryMessage",
    "HistoryResult",
    "ImageSpec",
    "JsonSchemaSpec",
    "Name",
    "NamedToolSpec",
    "PartSpec",
    "Provocation",
    "QuerySpec",
    "RecordSpec",
    "ResultSpec",
    "Scenario",
    "Settings",
    "SideSpec",
    "StepSpec",
    "Subject",
    "TextMatcher",
    "ThinkingSpec",
    "ToolSpec",
    "TrimSpec",
    "TurnSpec",
    "UserPartSpec",
    "Variant",
    "json_schema",
]
