"""From a view's name to a copy of it that follows."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from upshot.client.local_copy import Callback, Copy, wait_for_answer
from upshot.client.past_rows import RowsAt, rows_at
from upshot.client.relations import read_rows, read_schema, read_version
from upshot.client.requests import Requests, segment
from upshot.client.saved_copy import SavedCopy
from upshot.client.stream import StreamSource, ViewStream
from upshot.client.transport import OpenReply
from upshot.client.trouble import unexpected
from upshot.core.errors import Error
from upshot.core.json_values import JsonMisfit
from upshot.core.rows import row_set
from upshot.core.schema import Schema


@dataclass(frozen=True, slots=True)
class Followed:
    """A view, or the part of it that `where` selects; or a query with the values of its parameters."""

    view: str
    where: str | None = None
    parameters: Mapping[str, Any] | None = None

    @property
    def path(self) -> str:
        return "/changes" if self.parameters is not None else f"/views/{segment(self.view)}/changes"

    @property
    def fields(self) -> dict[str, Any]:
        """The parameters of the request, beside its path."""
        if self.parameters is None:
            return {"where": self.where}
        return {"query": self.view, "parameters": self.values}

    @property
    def values(self) -> str | None:
        return None if self.parameters is None else json.dumps(self.parameters, sort_keys=True)


class Following:
    """The subject and options of `Client.follow`, the same for every connection."""

    def __init__(
        self,
        requests: Requests,
        schema: Callable[[str], Schema],
        subject: Followed,
        every: float | None,
        silence: float,
        largest: int,
        on_trouble: Callable[[Error], None] | None,
    ) -> None:
        self._requests, self._schema = requests, schema
        self._subject, self._view, self._every = subject, subject.view, every
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
        saved = SavedCopy(state, self._view, self._subject.where or self._subject.values) if state is not None else None
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
        content = self._requests.get(self._subject.path, self._subject.fields)
        schema = read_schema(self._view, content.get("columns"))
        try:
            rows = row_set(read_rows(schema, content.get("rows")))
        except JsonMisfit as misfit:
            raise unexpected(str(misfit)) from None
        return RowsAt(read_version(content), str(content.get("epoch") or ""), schema, rows)

    def _source(self, every: float | None) -> StreamSource:
        def connect(cursor: int | None, epoch: str) -> OpenReply:
            headers = {} if cursor is None else {"Last-Event-ID": str(cursor)}
            # A service that has another database now cannot go on from the cursor, and answers with a snapshot.
            known = (epoch or None) if cursor is not None else None
            parameters = {**self._subject.fields, "every": every, "epoch": known}
            return self._requests.stream(self._subject.path, parameters, headers, self._silence)

        return StreamSource(self._view, connect, self._columns, self._largest, self._heard)

    def _columns(self) -> Schema:
        """The columns as they are now; those of a query come with its answers."""
        return self._schema(self._view) if self._subject.parameters is None else self._rows_now().schema

    def _heard(self, trouble: Error) -> None:
        self._last = trouble
        self._trouble(trouble)
