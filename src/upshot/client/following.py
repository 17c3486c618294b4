"""From a view's name to a copy of it that follows."""

from __future__ import annotations

import os
from collections.abc import Callable

from upshot.client.local_copy import Callback, Copy, wait_for_answer
from upshot.client.past_rows import RowsAt, rows_at
from upshot.client.relations import read_rows, read_schema, read_version
from upshot.client.requests import Requests, segment
from upshot.client.saved_copy import SavedCopy
from upshot.client.stream import Source, ViewStream
from upshot.client.transport import OpenReply
from upshot.client.trouble import unexpected
from upshot.core.errors import Error
from upshot.core.json_values import Misfit
from upshot.core.row_sets import row_set
from upshot.core.schema import Schema


class Following:
    """What is followed, and how: the part of `Client.follow` that is the same for every connection."""

    def __init__(
        self,
        requests: Requests,
        schema: Callable[[str], Schema],
        view: str,
        where: str | None,
        every: float | None,
        silence: float,
        largest: int,
        on_trouble: Callable[[Error], None] | None,
    ) -> None:
        self._requests, self._schema = requests, schema
        self._view, self._where, self._every = view, where, every
        self._silence, self._largest = silence, largest
        self._trouble = on_trouble or (lambda _: None)
        self._last: Error | None = None

    def copy(
        self,
        since: int | None,
        on_change: Callback | None,
        state: str | os.PathLike[str] | None,
        patience: float,
    ) -> Copy:
        """A copy that follows, once it holds an answer. A saved one holds its answer already."""
        saved = SavedCopy(state, self._view, self._where) if state is not None else None
        try:
            begin = saved.kept() if saved is not None else None
            if begin is None and since is not None:
                begin = self._rows_at(since)
                if saved is not None and begin is not None:
                    saved.save(begin.version, begin.epoch, begin.schema, begin.rows, (), whole=True)
        except BaseException:
            if saved is not None:
                saved.close()
            raise
        cursor, epoch = (begin.version, begin.epoch) if begin is not None else (None, "")
        stream = ViewStream(self._source(self._every), cursor, epoch)
        copy = Copy(self._view, stream, saved, on_change)
        copy.start(begin)
        return copy if begin is not None else wait_for_answer(copy, patience, lambda: self._last)

    def _rows_at(self, version: int) -> RowsAt | None:
        return rows_at(version, ViewStream(self._source(None), version), self._rows_now)

    def _rows_now(self) -> RowsAt:
        content = self._requests.get(f"/views/{segment(self._view)}/changes", {"where": self._where})
        schema = read_schema(self._view, content.get("columns"))
        try:
            rows = row_set(read_rows(schema, content.get("rows")))
        except Misfit as misfit:
            raise unexpected(str(misfit)) from None
        return RowsAt(read_version(content), str(content.get("epoch") or ""), schema, rows)

    def _source(self, every: float | None) -> Source:
        def connect(cursor: int | None, epoch: str) -> OpenReply:
            headers = {} if cursor is None else {"Last-Event-ID": str(cursor)}
            # A service that has another database now cannot go on from the cursor, and answers with a snapshot.
            known = (epoch or None) if cursor is not None else None
            parameters = {"where": self._where, "every": every, "epoch": known}
            return self._requests.stream(f"/views/{segment(self._view)}/changes", parameters, headers, self._silence)

        return Source(self._view, connect, lambda: self._schema(self._view), self._largest, self._heard)

    def _heard(self, trouble: Error) -> None:
        self._last = trouble
        self._trouble(trouble)
