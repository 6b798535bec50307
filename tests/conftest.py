from __future__ import annotations

import gc
import os
import sys

from hypothesis import HealthCheck, settings

pytest_plugins = ["pytester"]

# How fast the machine is, is nothing that a test asks.
settings.register_profile("harness", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("harness")


# Each run would rewrite the assertions of all tests anew, and each process that tests start compile the package, which
# takes longer than what most of them do.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# What a CI server gets unasked is asked for by the tests that are about it.
for _name in ("GITHUB_ACTIONS", "GITLAB_CI", "JENKINS_URL"):
    os.environ.pop(_name, None)


def pytest_collection_finish() -> None:
    """What is there now stays, and the collector need not look at all of it again and again."""
    gc.collect()
    gc.freeze()
