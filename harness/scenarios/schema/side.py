"""What is asked beside the conversation."""

from __future__ import annotations

from pydantic import Field

from harness.scenarios.fields import Strict


class SideSpec(Strict):
    """The answer to a request that is none of the conversation, as agents make them: a title, a summary."""

    text: str = Field(description="What is answered.")
    when: str | None = Field(
        default=None,
        min_length=1,
        description="Words by which such a request is known, in its instructions or in what the user says; absent: any "
        "that has none of the scenario's tools and none of its calls.",
    )
