"""The recording of one cell: redacted, journalled, and a cassette only once it is complete."""

from __future__ import annotations

from dataclasses import replace
from types import TracebackType
from typing import Self

from harness.contract.errors import CassetteError
from harness.contract.http import HttpRequest, HttpResponse
from harness.tape.cassette import Cassette, Interaction, Metadata
from harness.tape.journal import Journal
from harness.tape.library import Library
from harness.tape.redact import Redactor
from harness.tape.write import dumps
from harness.tape.write import replace as replace_file


class Recording:
    """A cell that is being recorded into `library`; a context manager.

    Leaving it before `complete` discards the recording and leaves the cassette as it was. If the process is killed, the
    journal stays.

    Raises:
        CassetteError: the place is taken by another model, another process, or a killed one's journal; `force` takes
            it from the first and the last.
    """

    def __init__(self, library: Library, metadata: Metadata, redactor: Redactor, *, force: bool = False) -> None:
        self._path = library.place_for(metadata, force=force)
        self._metadata = metadata
        self._redactor = redactor
        self._interactions: list[Interaction] = []
        self._journal = Journal(self._path, discard_leftover=force)

    def keep(self, request: HttpRequest, response: HttpResponse) -> None:
        """Add an exchange. It is on the disk, without secrets, when this returns. Raises `CassetteError`."""
        interaction = Interaction(self._redactor.request(request), self._redactor.response(response))
        self._journal.append(interaction)
        self._interactions.append(interaction)

    def complete(self, model_served: str | None = None) -> Cassette:
        """Put the cassette in place of the old one.

        Raises:
            CassetteError: nothing was recorded, a secret would be written, or the folder cannot be written.
        """
        if not self._interactions:
            raise CassetteError(str(self._path), "no exchange was recorded, so there is no cassette to write.")
        metadata = replace(self._metadata, model_served=model_served)
        cassette = Cassette(tuple(self._interactions), metadata)
        data = dumps(cassette, str(self._path))
        if self._redactor.finds(data):
            reason = (
                "a key of this run would be in it, so nothing was written. Please report this with the scenario's id."
            )
            raise CassetteError(str(self._path), reason)
        replace_file(self._path, data)
        return cassette

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._journal.remove()
