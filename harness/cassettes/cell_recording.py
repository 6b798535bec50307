"""Recording of one cell: redacted, journalled, and saved only when complete."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from harness.apis import registry
from harness.apis.view import WireError
from harness.cassettes.cassette import Cassette, Interaction, Metadata
from harness.cassettes.cassette_files import dumps, write_file
from harness.cassettes.library import Journal, Leftover, Library
from harness.cassettes.player import normalised
from harness.cassettes.redact import Redactor
from harness.cassettes.suspects import suspects, unallowed
from harness.model.errors import CassetteError, CassetteTaken
from harness.model.http import HttpRequest, HttpResponse


class CellRecording:
    """Context manager that records a cell into `library`.

    Leaving it before `complete` keeps the old cassette and the journal. The next recording resumes from the journal:
    requests that are equal and in the same order get the stored responses.

    `allowed` lists places where suspected secrets may be stored (see `harness.cassettes.suspects`). `taken` counts the
    exchanges resumed from the journal. `notes` are sentences about what happened to that journal.

    Raises:
        CassetteTaken: the cassette was recorded with another model, may have been paid for (unless `replaces` or
            `force` is set), or is being recorded by another process.
        CassetteError: the existing cassette cannot be read (unless `force`), or the folder cannot be written.
    """

    def __init__(  # noqa: PLR0913 - what is recorded where, and what may be in the way
        self,
        library: Library,
        metadata: Metadata,
        redactor: Redactor,
        *,
        force: bool = False,
        replaces: bool = False,
        allowed: Sequence[str] = (),
    ) -> None:
        self.taken = 0
        self.notes: list[str] = []
        self._path = library.place_for(metadata, force=force or replaces)
        self._metadata = metadata
        self._redactor = redactor
        self._force = force
        self._allowed = allowed
        self._interactions: list[Interaction] = []
        self._lines = 0
        self._failure: CassetteError | None = None
        self._completed = False
        self._journal = Journal(self._path, metadata, force=force)
        self._left = deque(answers(self._journal.leftover))
        try:
            # Check again under the lock: its previous owner may have saved a cassette.
            library.place_for(metadata, force=force or replaces)
            if self._left and not _is_continued(self._journal.leftover, metadata):
                self._part()
        except CassetteError:
            if self._journal.leftover.interactions:
                self._journal.close()
            else:
                self._journal.remove()
            raise

    def taken_up(self, request: HttpRequest) -> HttpResponse | None:
        """Return the response that an earlier recording received for this request, if it is the next one in the
        journal.

        Raises:
            CassetteError: the request differs, and the rest of the journal cannot be moved away.
        """
        if not self._left:
            return None
        if not _is_same(self._left[0][1].request, self._redactor.request(request)):
            self._part()
            return None
        return self._take().response

    def keep(self, request: HttpRequest, response: HttpResponse) -> None:
        """Add an exchange. When this returns, it is on disk, with secrets removed. Raises `CassetteError`."""
        interaction = Interaction(self._redactor.request(request), self._redactor.response(response))
        if self._left and self._left[0][1] == interaction:  # resent, with the same response as in the journal
            self._take()
            return
        if self._left and _is_answer(interaction, self._metadata.api):
            self._part()
        try:
            self._journal.append(interaction)
        except CassetteError as error:
            self._failure = error
            raise
        self._interactions.append(interaction)

    def complete(self, model_served: str | None = None) -> Cassette:
        """Write the cassette, replacing the old one.

        Raises:
            CassetteTaken: the cassette would contain a suspected secret.
            CassetteError: nothing was recorded, the cassette would contain a known secret, or the folder cannot be
                written.
        """
        if self._failure is not None:
            raise self._failure
        if not self._interactions:
            raise CassetteError(str(self._path), "no exchange was recorded, so there is no cassette to write.")
        if self._left:
            self._part()
        if self._metadata.origin != "reference":  # its answers come from the script
            wires = [registry.api(self._metadata.api)] * len(self._interactions)
            found = suspects(self._interactions, wires, self._path)
            refused = unallowed(found, self._allowed, "--allow-secret")
            if refused is not None:
                journal = self._journal.path
                where = (
                    f"The responses so far are in {journal}, which only you may read. To delete them: rm '{journal}'"
                )
                raise CassetteTaken(str(self._path), f"{refused}. {where}.")
        begun = self._journal.leftover.metadata if self.taken else None
        recorded_at = begun.recorded_at if begun else self._metadata.recorded_at
        metadata = replace(self._metadata, model_served=model_served, recorded_at=recorded_at)
        cassette = Cassette(tuple(self._interactions), metadata)
        data = dumps(cassette, str(self._path))
        if self._redactor.finds(data):
            reason = (
                "a key of this run would be in it, so nothing was written. Please report this with the scenario's id."
            )
            raise CassetteError(str(self._path), reason)
        write_file(self._path, data)
        self._completed = True
        return cassette

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        kept = [each for each in self._interactions if _is_answer(each, self._metadata.api)]
        if self.taken:
            self.notes.append(
                f"Reused {_exchanges(self.taken, 'answered ')} of {self._path} without sending a request."
            )
        if self._completed or not (kept or self._left):
            left = self._journal.remove()
            self.notes += [left] if left else []
        else:
            self._journal.close()
            self.notes.append(
                f"{self._path} is not complete. Its responses so far ({_exchanges(len(kept) + len(self._left))}) are "
                f"in {self._journal.path.name}, and the next recording of the cell reuses them. To request them again, "
                "delete the file."
            )
        if error is None and self._failure is not None:
            raise self._failure  # an SDK may have reported it as a connection failure

    def _take(self) -> Interaction:
        self._lines, interaction = self._left.popleft()
        self._interactions.append(interaction)
        self.taken += 1
        return interaction

    def _part(self) -> None:
        """Stop resuming from the earlier journal. Its remaining exchanges are moved to another file or, with `force`,
        dropped.
        """
        unasked = len(self._left)
        try:
            kept = None if self._force else self._journal.keep_leftover()
            self._journal.cut(self._lines)
        except CassetteError as error:
            self._failure = error
            raise
        self._left.clear()
        where = "dropped, as --force says" if kept is None else f"kept in {kept}"
        self.notes.append(
            f"{self._path}: what an earlier recording has left ({_exchanges(unasked)}) was not asked for again, since "
            f"other requests are sent now, and is {where}."
        )


def answers(leftover: Leftover) -> list[tuple[int, Interaction]]:
    """Return the successful exchanges of a journal, each with its number in the journal.

    Failed exchanges are left out because a retry may succeed.
    """
    if leftover.metadata is None:  # from before journals said whose they are
        return [*enumerate(leftover.interactions, 1)]
    api = leftover.metadata.api
    return [(number, each) for number, each in enumerate(leftover.interactions, 1) if _is_answer(each, api)]


def _is_answer(interaction: Interaction, api: str) -> bool:
    response = interaction.response
    if response is None or response.status >= 400 or response.delivery.ending != "complete":
        return False
    wire = registry.api(api)
    if wire.embeddings is not None and wire.embeddings.recognises(interaction.request):
        return True
    try:
        view = wire.read(response)
    except WireError:
        return False
    return view.error is None and view.complete


def _is_continued(leftover: Leftover, metadata: Metadata) -> bool:
    return leftover.metadata is not None and leftover.metadata.origin == metadata.origin


def _is_same(one: HttpRequest, other: HttpRequest) -> bool:
    if (urlsplit(one.url)[:2], one.headers) != (urlsplit(other.url)[:2], other.headers):
        return False
    return normalised(one) == normalised(other)


def _exchanges(count: int, kind: str = "") -> str:
    return f"1 {kind}exchange" if count == 1 else f"{count} {kind}exchanges"
