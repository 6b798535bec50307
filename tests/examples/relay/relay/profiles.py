"""The generations of Relay's models."""

from harness.apis.profiles import Profile
from harness.model.protocols import Capability

PROFILES = (
    Profile("relay-1", r"relay-1(\..*)?"),
    Profile("relay", r".*", lacks=frozenset({Capability.JSON_WITH_TOOLS})),
)
