"""What holds for all models of the command line. See `harness.apis.profile`."""

from __future__ import annotations

from harness.apis.profile import Profile

PROFILES = (Profile("claude-cli", r".*"),)
