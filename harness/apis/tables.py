"""What the tables of all APIs hold together."""

from __future__ import annotations

from harness import catalog
from harness.apis.endpoint import PATH_UNKNOWN
from harness.apis.limit import Limit


def known_limits() -> tuple[Limit, ...]:
    """Everything that a request can violate."""
    return (PATH_UNKNOWN, *(limit for api in catalog.apis() for limit in api.limits))
