"""The methods of a database over HTTP, and the webhooks of a service."""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, overload

from upshot.client.address import checked_token, parse_address, tls_context
from upshot.client.errors import unexpected
from upshot.client.event_stream import LARGEST_EVENT
from upshot.client.events import Change
from upshot.client.local_copy import Callback, Copy, wait_for_answer
from upshot.client.outcomes import Facts, Outcome, json_value, read_witnesses, transaction_body
from upshot.client.realizations import (
    Realization,
    Realizations,
    filled,
    no_longer_valid,
    read_realizations,
    realizations_body,
)
from upshot.client.relations import (
    Program,
    RowChangeAt,
    read_history,
    read_program,
    read_rows,
    read_schema,
    read_version,
)
from upshot.client.requests import Requests, in_doubt, segment
from upshot.client.saved_copy import SavedCopy
from upshot.client.stream import SILENCE, RowsAt, StreamSource, ViewStream, rows_at
from upshot.client.transport import OpenReply, Transport
from upshot.core.errors import ConstraintError, DataError, Error, UsageError, unknown_relation
from upshot.core.json_values import JsonMisfit
from upshot.core.rows import Rows, row_set
from upshot.core.schema import Schema
from upshot.core.search_bounds import Bounds


@dataclass(frozen=True, slots=True)
class FollowedSubject:
    """The subject of a subscription: a view, or the part of it that `where` selects; or a query with parameters."""

    view: str
    where: str | None = None
    parameters: Mapping[str, Any] | None = None

    @property
    def path(self) -> str:
        return "/changes" if self.parameters is not None else f"/views/{segment(self.view)}/changes"

    @property
    def fields(self) -> dict[str, Any]:
        """The query parameters of the request."""
        if self.parameters is None:
            return {"where": self.where}
        return {"query": self.view, "parameters": self.values}

    @property
    def values(self) -> str | None:
        return None if self.parameters is None else json.dumps(self.parameters, sort_keys=True)


class Following:
    """The subject and the options of a subscription, the same for every connection."""

    def __init__(
        self,
        requests: Requests,
        schema: Callable[[str], Schema],
        subject: FollowedSubject,
        every: float | None,
        silence: float,
        largest: int,
        on_trouble: Callable[[Error], None] | None,
    ) -> None:
        self._requests, self._schema = requests, schema
        self._subject, self._view, self._every = subject, subject.view, every
        self._silence, self._largest = silence, largest
        self._on_trouble = on_trouble or (lambda _: None)
        self._last: Error | None = None

    def copy(
        self,
        since: int | None,
        on_change: Callback | None,
        state: str | os.PathLike[str] | None,
        patience: float,
    ) -> Copy:
        """Start a copy, and wait for its first rows unless it is saved in a file."""
        saved = SavedCopy(state, self._view, self._subject.where or self._subject.values) if state is not None else None
        try:
            begin = saved.load() if saved is not None else None
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
            # A service with another epoch cannot continue from the cursor, and sends a snapshot.
            cursor_epoch = (epoch or None) if cursor is not None else None
            parameters = {**self._subject.fields, "every": every, "epoch": cursor_epoch}
            return self._requests.stream(self._subject.path, parameters, headers, self._silence)

        return StreamSource(self._view, connect, self._columns, self._largest, self._report)

    def _columns(self) -> Schema:
        """The current columns."""
        return self._schema(self._view) if self._subject.parameters is None else self._rows_now().schema

    def _report(self, error: Error) -> None:
        self._last = error
        self._on_trouble(error)


class Subscriptions:
    """The webhooks of a service, as `client.subscriptions`. A dict with its `id` describes each subscription."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    def add(
        self,
        view: str,
        url: str,
        secret: str,
        *,
        where: str | None = None,
        every: float | str | None = None,
        since: int | None = None,
        events: str | None = None,
        limit: int | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Subscribe a URL to a view or, with `parameters` (empty if it has none), to a query. `events`: `insert`
        or `delete` to receive only those rows; `limit`: the most inserted or deleted rows in one delivery. `secret` is
        the NAME of a secret: the service signs with the value of its environment variable
        `UPSHOT_WEBHOOK_SECRET_<NAME>`. The request is not repeated if its answer is lost: check `list()`."""
        subject = {"view": view} if parameters is None else {"query": view, "parameters": dict(parameters)}
        content = {**subject, "url": url, "secret": secret, "where": where, "every": every, "since": since}
        content |= {"events": events, "limit": limit}
        body = {name: value for name, value in content.items() if value is not None}
        return self._requests.post("/subscriptions", body, repeatable=False)

    def list(self) -> Sequence[Mapping[str, Any]]:
        return tuple(self._requests.get("/subscriptions").get("subscriptions") or ())

    def get(self, id: str) -> dict[str, Any]:
        return self._requests.get(self._path(id))

    def remove(self, id: str) -> None:
        self._requests.delete(self._path(id))

    def resume(self, id: str, *, skip: bool = False) -> dict[str, Any]:
        """Resume a suspended subscription from its cursor; `skip` omits the delivery that failed."""
        return self._requests.post(f"{self._path(id)}/resume", {"skip": skip}, repeatable=not skip)

    def deliver(self, id: str) -> dict[str, Any]:
        """Deliver the changes now, for a subscription on demand."""
        return self._requests.post(f"{self._path(id)}/deliver", repeatable=True)

    def dead_letters(self, id: str) -> Sequence[Mapping[str, Any]]:
        """The deliveries that failed, each with its reason."""
        return tuple(self._requests.get(f"{self._path(id)}/dead-letters").get("dead_letters") or ())

    @staticmethod
    def _path(id: str) -> str:
        return f"/subscriptions/{segment(id)}"


TOKEN = "UPSHOT_TOKEN"
"""The environment variable with the default token."""


T = TypeVar("T")


_ATTEMPTS = 5

_NAME = re.compile(r"\s*[\w?]+\s*")
"""The name of a view, not a query."""


class _Expired(Exception):
    """The service no longer has the pages of an answer, which must be read again from its beginning."""


class Answer(Rows):
    """Rows and their version."""

    __slots__ = ("version",)

    def __init__(self, rows: Rows, version: int) -> None:
        super().__init__(rows.schema, rows._source)
        self.version = version


class AnswerPage(Answer):
    """A page of sorted rows; `next` is the cursor of the following page, None if there is none."""

    __slots__ = ("next",)

    def __init__(self, answer: Answer, next: str | None) -> None:
        super().__init__(answer, answer.version)
        self.next = next


class Client:
    """A connection to a service; several threads may share it. Calls raise the same errors as a database in process.
    After a temporary failure (no connection, a service that restarts) a call is retried for `retry_for` seconds.

    `token` defaults to the environment variable `UPSHOT_TOKEN`. `ca` is a file with trusted CA certificates. `timeout`
    is the longest pause within one answer, in seconds; `largest` the most bytes of an answer.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        ca: str | os.PathLike[str] | None = None,
        timeout: float = 30.0,
        retry_for: float = 30.0,
        largest: int = LARGEST_EVENT,
        insecure: bool = False,
    ) -> None:
        address = parse_address(url)
        found = token if token is not None else os.environ.get(TOKEN) or None
        self._transport = Transport(address, tls_context(address, ca), timeout, largest)
        self._requests = Requests(self._transport, checked_token(found, address, insecure=insecure), retry_for)
        self._largest, self._retry_for = largest, retry_for
        self._relations: Mapping[str, Schema] = {}
        self.url = str(address)
        self.subscriptions = Subscriptions(self._requests)
        """Webhooks."""

    def close(self) -> None:
        """Close idle connections. Copies continue until they are closed themselves."""
        self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<client of {self.url}>"

    # ---- changing -----------------------------------------------------------------------------

    def transaction(
        self,
        *,
        insert: Facts | None = None,
        delete: Facts | None = None,
        upsert: Facts | None = None,
        replace: Facts | None = None,
        meta: Mapping[str, Any] | None = None,
        expect: Mapping[str, Facts] | None = None,
        key: str | None = None,
    ) -> Outcome:
        """Commit a transaction exactly once, even if the request is repeated. If no answer arrives in time,
        `outcome-unknown` is raised: repeat the call with the `key` that the error names. With `expect`, as in
        `{"delete": {"closure": [(1, 3)]}}`, it is committed only if at its end the rows of `insert` are present and
        those of `delete` absent."""
        body = transaction_body({"insert": insert, "delete": delete, "upsert": upsert, "replace": replace}, meta)
        if expect is not None:
            body["expect"] = transaction_body(expect)
        key = key or uuid.uuid4().hex
        headers = {"Idempotency-Key": key}
        try:
            content = self._requests.post("/transactions", body, headers, repeatable=True)
        except ConstraintError as error:
            raise self._with_typed_witnesses(error) from None
        except Error as error:
            if getattr(error, "sent", False):
                raise in_doubt(error, key) from None
            raise
        return Outcome(content, self._with_relations)

    def what_if(
        self,
        *,
        insert: Facts | None = None,
        delete: Facts | None = None,
        upsert: Facts | None = None,
        replace: Facts | None = None,
    ) -> Outcome:
        """The changes that a transaction would make; nothing is committed."""
        body = transaction_body({"insert": insert, "delete": delete, "upsert": upsert, "replace": replace})
        return Outcome(self._requests.post("/what-if", body, repeatable=True), self._with_relations)

    def realize(
        self,
        insert: Facts | None = None,
        delete: Facts | None = None,
        *,
        repair: str | None = None,
        limit: int = 10,
        frozen: Iterable[str] = (),
        cost: Mapping[str, float] | None = None,
        bounds: Bounds | Mapping[str, Any] | None = None,
        side_effect_free_first: bool = False,
        prefer: str | None = None,
    ) -> Realizations:
        """Find minimal sets of base changes that insert and delete these rows of views or base relations and violate no
        further constraint: the cheapest first, at most `limit`. `repair` names a constraint whose violations must be
        removed; `*` means all. `bounds` is an `upshot.Bounds`, or a dict with some of its names. Rows to delete may be
        a pattern, as in `delete={"access": 'access("ann", _)'}`. `prefer="least_side_effects"` puts those first whose
        changes affect the fewest other rows of views."""
        body = realizations_body(insert, delete, frozen, cost, bounds)
        body |= {"limit": limit, "side_effect_free_first": side_effect_free_first}
        if repair is not None:
            body["repair"] = repair
        if prefer is not None:
            body["prefer"] = prefer
        content = self._requests.post("/realizations", body, repeatable=True)
        return self._with_relations(lambda relations: read_realizations(content, relations))

    def apply(
        self, realization: Realization, values: Mapping[str, Any] | None = None, *, key: str | None = None
    ) -> Outcome:
        """Commit a realization exactly once, with `values` for its placeholders by name. A realization that no longer
        satisfies the request is rejected (`not-a-realization`)."""
        insert, delete = filled(realization, values)
        try:
            return self.transaction(insert=insert, delete=delete, expect=realization.expect, key=key)
        except DataError as error:
            if error.code != "not-as-expected":
                raise
            raise no_longer_valid(realization, error.message) from None

    def _with_typed_witnesses(self, error: ConstraintError) -> ConstraintError:
        """The error with witnesses as Python values."""
        listed = {name: [list(row) for row in rows] for name, rows in error.violations.items()}
        with suppress(Error):  # the rejection matters more than the types of its witnesses
            typed = self._with_relations(lambda relations: read_witnesses(listed, relations))
            error.violations = {name: list(rows) for name, rows in typed.items()}
        return error

    # ---- reading ------------------------------------------------------------------------------

    def rows(self, view: str, where: str | None = None) -> Answer:
        """The rows of a relation or view, all or those of a selection such as `closure("a", Y)`, at one version."""
        for _ in range(_ATTEMPTS):
            with suppress(_Expired):
                return self._pages(view, where)
        raise unexpected(f"pages of `{view}` expire before they are read")

    def _pages(self, view: str, where: str | None) -> Answer:
        path, found = f"/views/{segment(view)}", list[Any]()
        content = self._requests.get(path, {"where": where})
        version, columns = read_version(content), content.get("columns")
        found += content.get("rows") or []
        while content.get("next") is not None:
            content = self._next_page(path, {"where": where, "after": content["next"]})
            if (content.get("version"), content.get("columns")) != (version, columns):
                raise unexpected(f"pages of `{view}` at different versions")
            found += content.get("rows") or []
        return _answer(view, columns, found, version)

    def _next_page(self, path: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self._requests.get(path, parameters)
        except Error as error:
            if error.code == "page-expired":
                raise _Expired from None  # for instance after a restart of the service
            raise

    def query(self, text: str, /, **parameters: Any) -> Answer:
        """The answers to a query; values are bound, never spliced: `query("closure($x, Y)", x=1)`."""
        bound = {name: json_value(value, f"parameter `{name}`") for name, value in parameters.items()}
        content = self._requests.post("/query", {"query": text, "parameters": bound}, repeatable=True)
        return _answer("query", content.get("columns"), content.get("rows"), read_version(content))

    def page(
        self,
        view: str,
        /,
        where: str | None = None,
        *,
        limit: int = 1_000,
        order: str | None = None,
        after: str | None = None,
        consistent: bool = True,
        at: int | None = None,
        **parameters: Any,
    ) -> AnswerPage:
        """The first `limit` rows of a relation, or answers to a query with `parameters`, sorted by the columns of
        `order`, as in `-y,x`; `after` is `next` of the page before. All pages are of the version of the first, else
        `page-expired`; with `consistent=False` they may go on in a later one. `at`: an earlier version."""
        bound = {name: json_value(value, f"parameter `{name}`") for name, value in parameters.items()}
        options = {"limit": limit, "order": order, "after": after, "at": at}
        chosen = {name: value for name, value in options.items() if value is not None}
        if bound or not _NAME.fullmatch(view):
            body = {"query": view, "parameters": bound, **chosen, "consistent": consistent}
            content = self._requests.post("/query", body, repeatable=True)
        else:
            parameters = {"where": where, **chosen, "consistent": str(consistent).lower()}
            content = self._requests.get(f"/views/{segment(view.strip())}", parameters)
        answer = _answer(view, content.get("columns"), content.get("rows"), read_version(content))
        return AnswerPage(answer, content.get("next"))

    def row_history(self, view: str, row: tuple[Any, ...]) -> tuple[RowChangeAt, ...]:
        """The commits that inserted or deleted a row, the oldest first, as far as the log of the service reaches."""
        content = self._requests.get(f"/views/{segment(view)}/history", {"row": _row_text(row)})
        return read_history(content)

    def program(self) -> Program:
        """The program, its version, and the relations this token may read."""
        program = read_program(self._requests.get("/program"))
        self._relations = program.relations
        return program

    @overload
    def explain(
        self,
        view: str,
        row: tuple[Any, ...] | None = None,
        *,
        limit: int | None = None,
        depth: int | None = None,
        fixes: int | None = None,
        seconds: float | None = None,
        changed_in: int | None = None,
        format: Literal["json"] = "json",
    ) -> dict[str, Any]: ...

    @overload
    def explain(
        self,
        view: str,
        row: tuple[Any, ...],
        *,
        limit: int | None = None,
        depth: int | None = None,
        fixes: int | None = None,
        seconds: float | None = None,
        changed_in: int | None = None,
        format: Literal["text", "svg"],
    ) -> str: ...

    def explain(
        self,
        view: str,
        row: tuple[Any, ...] | None = None,
        *,
        limit: int | None = None,
        depth: int | None = None,
        fixes: int | None = None,
        seconds: float | None = None,
        changed_in: int | None = None,
        format: Literal["json", "text", "svg"] = "json",
    ) -> dict[str, Any] | str:
        """Explain the maintenance of a view. With a `row`: its `derivation`, with a `limit` at most that many
        `derivations`; for an absent row the nearest rules (`why_not`, missing rows of views explained to `depth`) and
        at most `fixes` realizations, searched for at most `seconds`. With `changed_in`: the reason why that version
        inserted or deleted it (`why_changed`). A row is explained as data, `text` or a picture (`svg`)."""
        text = None if row is None else _row_text(row)
        parameters: dict[str, Any] = {"row": text, "limit": limit, "depth": depth, "changed_in": changed_in}
        parameters |= {"fixes": fixes, "seconds": seconds}
        path = f"/explanations/{segment(view)}"
        if format == "json":
            return self._requests.get(path, parameters)
        return self._requests.get_text(path, {**parameters, "format": format})

    def commits(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The last commits, with counts by relation and how long they took."""
        return list(self._requests.get("/commits", {"limit": limit}).get("commits") or [])

    def changes(
        self, view: str, since: int, where: str | None = None, *, until: int | None = None
    ) -> tuple[int, Rows, Rows]:
        """The version `until`, the last one unless given, and the rows inserted and deleted, net, since a version."""
        parameters = {"since": since, "where": where, "until": until}
        content = self._requests.get(f"/views/{segment(view)}/changes", parameters)
        version = read_version(content)
        if "rows" in content:
            hint = "read the current rows with `rows`"
            message = f"the changes of `{view}` since version {since} are not kept"
            raise UsageError(message, code="history-not-kept", help=hint)
        schema = self._schema(view)
        try:
            return version, read_rows(schema, content.get("insert")), read_rows(schema, content.get("delete"))
        except JsonMisfit as misfit:
            raise unexpected(str(misfit)) from None

    # ---- following ----------------------------------------------------------------------------

    def follow(
        self,
        view: str,
        where: str | None = None,
        *,
        since: int | None = None,
        every: float | None = None,
        events: str = "all",
        limit: int | None = None,
        on_change: Callback | None = None,
        on_trouble: Callable[[Error], None] | None = None,
        state: str | os.PathLike[str] | None = None,
        silence: float = SILENCE,
        **parameters: Any,
    ) -> Copy:
        """Return a copy of the view that stays exactly current, once it has its first rows. `view` may be a query, a
        rule body or a SELECT, with values for its `$x` or `:x` as `parameters`. `since`: start with the rows of that
        version, then apply every later change. `every`: apply net changes, at most once in that many seconds.
        `events`: call `on_change` with rows of one sign only, `insert` or `delete`. `limit`: with at most that many
        rows of each sign. `state`: a file that stores the copy; the next client resumes from it and ignores `since`.
        `on_trouble` is called with each connection error. A connection that is silent for `silence` seconds is
        closed."""
        if since is not None and (isinstance(since, bool) or since < 0):
            raise UsageError("`since` must be a version", code="wrong-argument", help="0 is the empty database")
        if events not in ("all", "insert", "delete"):
            help = "use `all`, `insert` or `delete`"
            raise UsageError(f"`events` cannot be `{events}`", code="wrong-argument", help=help)
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
            raise UsageError("`limit` must be a non-negative integer", code="wrong-argument", help="as in limit=100")
        bound = {name: json_value(value, f"parameter `{name}`") for name, value in parameters.items()}
        subject = FollowedSubject(view, where, bound if bound or not _NAME.fullmatch(view) else None)
        following = Following(self._requests, self._schema, subject, every, silence, self._largest, on_trouble)
        callback = on_change if on_change is None else _filtered(on_change, events, limit)
        return following.copy(since, callback, state, self._retry_for)

    # ---- columns ------------------------------------------------------------------------------

    def _schema(self, view: str) -> Schema:
        """The current columns of a relation."""
        relations = self.program().relations
        if view not in relations:
            hint = "`client.program().relations` lists what this token may read"
            raise unknown_relation(view, relations, otherwise=hint, code="not-found")
        return relations[view]

    def _with_relations(self, read: Callable[[Mapping[str, Schema]], T]) -> T:
        """Call `read` with the known relations; if it fails, fetch them and try again."""
        try:
            return read(self._relations)
        except (KeyError, JsonMisfit):
            relations = self.program().relations
        try:
            return read(relations)
        except (KeyError, JsonMisfit) as error:
            raise unexpected(f"rows do not match the program: {error}") from None


def _row_text(row: tuple[Any, ...]) -> str:
    values = [json_value(value, "a value of the row") for value in row]
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def _filtered(on_change: Callback, events: str, limit: int | None) -> Callback:
    def filtered(change: Change) -> None:
        shown = change.shown(events, limit)
        if shown or shown.omitted or (change.snapshot and not change):
            on_change(shown)

    return on_change if (events, limit) == ("all", None) else filtered


def _answer(name: str, columns: Any, rows: Any, version: int) -> Answer:
    try:
        return Answer(read_rows(read_schema(name, columns), rows), version)
    except JsonMisfit as misfit:
        raise unexpected(str(misfit)) from None
