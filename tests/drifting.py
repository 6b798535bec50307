"""A provider that changed its mind: the reference server's judgement, by facts that were changed."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.apis import registry
from harness.apis.api import Api
from harness.apis.fact_files import CompiledFacts, FactSelection, today
from harness.apis.profiles import Profile
from harness.model.http import HttpRequest, HttpResponse
from harness.platform.files import shipped_folder
from harness.reference_server.script_session import ScriptSession
from harness.scenarios.load import load_file

SCENARIO = load_file(shipped_folder("scenarios") / "system-absent.yaml")


def changed(file: Path, api: str, changes: Mapping[str, Mapping[str, Any]]) -> Path:
    """A file of facts in which these differ from the shipped ones."""
    shipped = {fact.id: fact for fact in registry.api(api).facts.all()}
    entries = [
        shipped[name].model_dump(mode="json", by_alias=True, exclude_unset=True) | change
        for name, change in changes.items()
    ]
    file.write_text(json.dumps({"api": api, "facts": entries}))
    return file


def provider(api: str, *files: Path) -> Callable[[HttpRequest], HttpResponse]:
    """A server that refuses whatever anything is known against, contested or not, by these facts as well."""
    wire = registry.api(api)

    def handle(request: HttpRequest) -> HttpResponse:
        model = wire.model_of(request) or ""
        profile = wire.profile_for(model, FactSelection(today(), files))
        rule_set = wire.services.provider_rules(profile, model)
        violations = wire.judge(request, rule_set)
        taken = _taken(wire, profile, request)
        refused = [each for each in violations if each.severity == "error" or each.pointer not in taken]
        if refused:
            return wire.error_for(wire.refuse(refused[0]), request)
        return ScriptSession(SCENARIO, wire, model, profile, rule_set)(request)

    return handle


def _taken(wire: Api, profile: Profile, request: HttpRequest) -> set[str]:
    """The places of which a fact says that what nobody is certain of is taken there."""
    accepted = [fact for fact in profile.facts if fact.verdict == "accepted" and fact.when]
    return {each.pointer for each in CompiledFacts(accepted, wire.schema_places).judge(request)[1]}


ENDED = {"until": str(dt.date(2026, 9, 1)), "since": None}
"""What the change of a fact is that ended."""
