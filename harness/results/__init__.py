"""What a run produces: transcripts, findings, cells, the run; and all that reports may read."""

from harness.contract.model import JSON
from harness.results.audit import ApiCounts, Audited, PairCounts, PairDisagreement, RedriveResult, Refusal, Skipped
from harness.results.checked import Checked, Rate, Tried
from harness.results.conversation import Conversation, Said, Saying, Sent, Speaker
from harness.results.definition import Definition
from harness.results.expectation import StaleExpectation
from harness.results.findings import Blame, Body, Finding, Kind, Outcome, Severity, of_client, writable
from harness.results.invocation import Invocation
from harness.results.part import Part
from harness.results.passing import FactFates, Fate
from harness.results.report import Presentation, Report
from harness.results.run import (
    CellResult,
    Difference,
    Origin,
    Provenance,
    RunResult,
    Spending,
    Verdict,
    summed,
    worst,
)
from harness.results.transcript import (
    Change,
    Chat,
    DrivenTranscript,
    Embedded,
    EmbeddingTranscript,
    Exchange,
    Mode,
    Retelling,
    ServedTranscript,
    ToolExecution,
    ToolRun,
    Transcript,
    TurnedAway,
)
from harness.scenarios.schema import Subject, Variant

__all__ = [
    "JSON",
    "ApiCounts",
    "Audited",
    "Blame",
    "Body",
    "CellResult",
    "Change",
    "Chat",
    "Checked",
    "Conversation",
    "Definition",
    "Difference",
    "DrivenTranscript",
    "Embedded",
    "EmbeddingTranscript",
    "Exchange",
    "FactFates",
    "Fate",
    "Finding",
    "Invocation",
    "Kind",
    "Mode",
    "Origin",
    "Outcome",
    "PairCounts",
    "PairDisagreement",
    "Part",
    "Presentation",
    "Provenance",
    "Rate",
    "RedriveResult",
    "Refusal",
    "Report",
    "Retelling",
    "RunResult",
    "Said",
    "Saying",
    "Sent",
    "ServedTranscript",
    "Severity",
    "Skipped",
    "Speaker",
    "Spending",
    "StaleExpectation",
    "Subject",
    "ToolExecution",
    "ToolRun",
    "Transcript",
    "Tried",
    "TurnedAway",
    "Variant",
    "Verdict",
    "of_client",
    "summed",
    "worst",
    "writable",
]
