"""Answers with the data that a token may read, as JSON, lines of JSON, or Arrow."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow
from starlette.responses import Response

from upshot.active.firing import Firing
from upshot.core.errors import UsageError
from upshot.core.json_values import rows_to_json, to_json, type_to_json
from upshot.core.rows import Row, Rows
from upshot.core.schema import Schema
from upshot.database.changes import ChangeSet
from upshot.database.durable.history import PastCommit
from upshot.service.access.scopes import Scopes
from upshot.service.wire.errors import RequestError
from upshot.service.wire.pages import Page

JSON = "application/json"
NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"

_AT_ONCE = 2_000
"""Rows that are encoded as JSON in one step. During a step no other thread runs."""


def columns_of(schema: Schema) -> list[dict[str, str]]:
    """Describe columns as in `[{"name": "x", "type": "number"}]`."""
    return [{"name": column.name, "type": type_to_json(column.type)} for column in schema.columns]


def listed(rows: Iterable[Sequence[Any]]) -> list[list[Any]]:
    """The rows as lists of JSON values."""
    return [[to_json(value) for value in row] for row in rows]


def readable_changes(changes: ChangeSet, scopes: Scopes) -> dict[str, dict[str, list[list[Any]]]]:
    """The changes of readable relations, rows in order."""
    return {
        name: {"insert": listed(change.inserted.sorted()), "delete": listed(change.deleted.sorted())}
        for name, change in changes.items()
        if scopes.may_read(name)
    }


def readable_rows(found: Mapping[str, Iterable[Row]], scopes: Scopes) -> dict[str, list[list[Any]]]:
    """The rows of readable constraints or relations."""
    return {name: listed(rows) for name, rows in found.items() if scopes.may_read(name)}


def readable_firings(firings: Iterable[Firing], scopes: Scopes, *, causes: bool = False) -> list[dict[str, Any]]:
    """The firings of readable rules, rows in order; on request with the cause of each row."""
    return [
        {
            "rule": each.rule,
            "rows": listed(each.rows.sorted()),
            **({"causes": readable_causes(each, each.rows.sorted(), scopes)} if causes else {}),
        }
        for each in firings
        if scopes.may_read(each.rule)
    ]


def readable_past_firings(commit: PastCommit, scopes: Scopes) -> list[dict[str, Any]]:
    """The firings of a commit in the log. Of a firing with too many rows for the log, only their number is known."""
    if not commit.has_firings:
        return []
    return [
        {"rule": each.rule, "rows": listed(each.rows.sorted())}
        if each.has_rows
        else {"rule": each.rule, "rows": [], "rows_not_kept": each.count}
        for each in commit.firings
        if scopes.may_read(each.rule)
    ]


def readable_causes(firing: Firing, rows: Iterable[Row], scopes: Scopes) -> list[dict[str, Any]] | None:
    """The causes of some rows of a firing; None if the states before and after it are not kept. Literals contain names
    of relations, so only a token that may read everything gets them."""
    try:
        found = firing.cause
    except UsageError:
        return None

    def by_relation(changes: Iterable[tuple[str, Row]]) -> dict[str, list[list[Any]]]:
        rows: dict[str, list[Row]] = {}
        for name, row in changes:
            rows.setdefault(name, []).append(row)
        return readable_rows(rows, scopes)

    whole = scopes.reads_everything
    return [
        {
            "insert": by_relation(cause.inserted),
            "delete": by_relation(cause.deleted),
            "literals": list(cause.literals) if whole else [],
            "differentials": list(cause.differentials) if whole else [],
        }
        for cause in (found[row] for row in rows)
    ]


def count_rows(changes: ChangeSet) -> int:
    return sum(len(change.inserted) + len(change.deleted) for _, change in changes.items())


def json_response(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Like FastAPI's `JSONResponse`, but a value without JSON form raises an error."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(text.encode("utf-8", "backslashreplace"), status, headers, JSON)


# ---- pages of a view ------------------------------------------------------------------------------


def preferred_format(accept: str) -> str:
    """The supported format that the client prefers; `not-acceptable` if it accepts none.

    >>> preferred_format("*/*"), preferred_format("application/x-ndjson;q=0.5, text/html")
    ('application/json', 'application/x-ndjson')
    """
    best, chosen = 0.0, ""
    for part in accept.split(",")[:20]:
        kind, _, parameters = part.strip().partition(";")
        weight = _weight(parameters)
        for offered in (JSON, NDJSON, ARROW):
            if kind.strip().lower() in (offered, "*/*", "application/*") and weight > best:
                best, chosen = weight, offered
                break
    if not chosen:
        hint = f"`Accept: {JSON}`, `{NDJSON}` or `{ARROW}`"
        raise RequestError(406, "not-acceptable", "no supported format in `Accept`", help=hint)
    return chosen


def _weight(parameters: str) -> float:
    for each in parameters.split(";"):
        name, _, value = each.partition("=")
        if name.strip().lower() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


def page_response(page: Page, form: str) -> Response:
    """A page in a format. Headers carry version and next cursor, since lines and Arrow cannot."""
    listing = page.listing
    headers = {"Upshot-Version": str(listing.version), "Vary": "Accept"}
    if page.next is not None:
        headers["Upshot-Next"] = page.next
    if form == NDJSON:
        return Response(_lines(page.rows), 200, headers, NDJSON)
    if form == ARROW:
        return Response(b"".join(_arrow([page.rows])), 200, headers, ARROW)
    content = {"view": listing.view, "version": listing.version, "columns": columns_of(listing.rows.schema)}
    content |= {"count": len(listing.rows)} | ({} if listing.time is None else {"time": listing.time.isoformat()})
    # Rows are encoded directly to text: a large page is not in memory as lists, too.
    head = json.dumps(content, ensure_ascii=False, separators=(",", ":"))[:-1]
    tail = "" if page.next is None else f',"next":{json.dumps(page.next)}'
    rows = ",".join(rows_to_json(part)[1:-1] for part in _parts(page.rows, _AT_ONCE))
    text = f'{head},"rows":[{rows}]{tail}}}'
    return Response(text.encode("utf-8", "backslashreplace"), 200, headers, JSON)


def _lines(rows: Rows) -> bytes:
    text = "".join(rows_to_json([row])[1:-1] + "\n" for row in rows)
    return text.encode("utf-8", "backslashreplace")


def pieces(rows: Rows, form: str, size: int) -> Iterator[bytes]:
    """All rows as lines of JSON or as an Arrow stream, in batches."""
    parts = _parts(rows, size)
    return _arrow(parts) if form == ARROW else map(_lines, parts)


def _parts(rows: Rows, size: int) -> Iterator[Rows]:
    return (rows.part(first, first + size) for first in range(0, len(rows), size))


def _arrow(parts: Iterable[Rows]) -> Iterator[bytes]:
    """An Arrow stream of one batch for each part; there is at least one."""
    stream, writer = io.BytesIO(), None
    for rows in parts:
        table = rows.to_arrow()
        if not rows.schema.columns:
            table = pyarrow.table({"c0": pyarrow.array([True] * len(rows), pyarrow.bool_())})
        writer = writer or pyarrow.ipc.new_stream(stream, table.schema)
        writer.write_table(table)
        yield _take(stream)
    if writer is not None:
        writer.close()
    yield _take(stream)


def _take(stream: io.BytesIO) -> bytes:
    """The bytes written since the last call."""
    found = stream.getvalue()
    stream.seek(0)
    stream.truncate()
    return found
