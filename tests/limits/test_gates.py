"""A written check asks no more widely than the facts that it rests on: what they do not bear out is known."""

from __future__ import annotations

import json
from dataclasses import replace

from harness import catalog
from tests.apis import openai_chat_mutations, openai_responses_mutations
from tests.traffic import needs_traffic, recorded

SAMPLES = {
    "openai-chat": (openai_chat_mutations.MUTATIONS, 12),
    "openai-compat-chat": (openai_chat_mutations.MUTATIONS, 3),
    "openai-responses": (openai_responses_mutations.MUTATIONS, 12),
    "openai-compat-responses": (openai_responses_mutations.MUTATIONS, 3),
}
"""Folders of traffic of providers and of servers that are compatible with them, what is broken in it, and of how many
exchanges one is taken."""

NARROWER = {("openai-responses-sampling", "other")}
"""Limits that a check tells at a service where no fact has them refused: of the provider's own models elsewhere."""


@needs_traffic
def test_what_a_check_tells_and_no_fact_bears_out_is_known() -> None:
    told = 0
    unborne: set[tuple[str, str]] = set()
    for folder, (mutations, every) in SAMPLES.items():
        for exchange in [each for each in recorded(folder) if each.follow_up][::every]:
            api = catalog.api(exchange.api)
            model = api.model_of(exchange.request) or ""
            law = api.services.law_at(api.profile_for(model), model, exchange.request.url)
            body = json.loads(exchange.request.body)
            for mutated in (next(each.apply(body), None) for each in mutations):
                if mutated is None:
                    continue
                found = api.violations(replace(exchange.request, body=json.dumps(mutated).encode()), law)
                told += len(found)
                borne_out = {(each.rule, each.pointer) for each in api.borne_out(found, law)}
                unborne |= {(each.rule, law.service) for each in found if (each.rule, each.pointer) not in borne_out}
    assert told > 500
    assert unborne == NARROWER
