"""The adapters that the command is given: `tests.unusual.adapters:equal.<form>.<target>`, and `changed.…`.

The name of an attribute is a form's or a target's own, with what an identifier cannot hold replaced by `_`.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from harness.protocols import Adapter
from tests.stages import shipped_targets
from tests.unusual.form import Form
from tests.unusual.forms import FORMS


def attribute(name: str) -> str:
    """A name as an identifier."""
    return name.replace("-", "_").replace(".", "_")


def spec(side: str, form: Form, target: str) -> str:
    """What the command takes for `--adapter`."""
    return f"tests.unusual.adapters:{side}.{attribute(form.name)}.{attribute(target)}"


def _adapter(side: str, form: Form, target: str) -> Adapter:
    wrap = form.equal if side == "equal" else form.changed
    return replace(wrap(shipped_targets()[target].adapter), name=f"{form.name}-{side}")


def _all(side: str) -> SimpleNamespace:
    made = {
        attribute(form.name): SimpleNamespace(
            **{attribute(target): _adapter(side, form, target) for target in form.targets}
        )
        for form in FORMS
    }
    return SimpleNamespace(**made)


equal = _all("equal")
changed = _all("changed")
