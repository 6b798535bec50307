"""Tool arguments while they arrive: what can be read of a JSON text that is not complete."""

from __future__ import annotations

from jiter import from_json

from harness.contract.model import JSON

_OF_NUMBERS = "0123456789+-.eE"


class PartialArguments:
    """Collects the deltas of one call. `text` is what has come, `value` the best reading of it so far."""

    def __init__(self) -> None:
        self.text = ""
        self._in_string = False
        self._escaped = False

    def add(self, delta: str) -> None:
        """Take the next piece."""
        self.text += delta
        for character in delta:
            if self._escaped:
                self._escaped = False
            elif character == '"':
                self._in_string = not self._in_string
            elif character == "\\" and self._in_string:
                self._escaped = True

    @property
    def value(self) -> dict[str, JSON]:
        """The arguments as far as they have come: strings as far as they go, other values only once they are whole.

        A number at the end may go on, so it is left out: a cut `1234` never shows as `12`. A text that is no JSON
        object, or not yet one, reads as `{}`.
        """
        text = self.text if self._in_string else self.text.rstrip().rstrip(_OF_NUMBERS)
        try:
            value: JSON = from_json(text.encode(errors="replace"), partial_mode="trailing-strings")
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}
