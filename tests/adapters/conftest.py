from __future__ import annotations

import pytest

from tests.adapters.wires import WIRES
from tests.adapters.wires.wire import Wire


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> Wire:
    return WIRES[request.param]
