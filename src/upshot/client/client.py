"""A service from Python: the methods of a database over HTTP, and the webhooks of a service."""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeVar, overload

from upshot.client.address import checked_token, parse_address, tls_context
from upshot.client.event_stream import LARGEST_EVENT
from upshot.client.following import Followed, Following
from upshot.client.local_copy import Callback, Copy
from upshot.client.outcomes import Facts, Outcome, json_value, read_witnesses, transaction_body
from upshot.client.realizations import (
    Realization,
    Realizations,
    filled,
    not_any_more,
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
from upshot.client.stream import SILENCE
from upshot.client.transport import Transport
from upshot.client.trouble import unexpected
from upshot.core.errors import ConstraintError, DataError, Error, UsageError, unknown_relation
from upshot.core.json_values import JsonMisfit
from upshot.core.rows import Rows
from upshot.core.schema import Schema
from upshot.core.search_bounds import Bounds


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
        """A new subscription, to a view or, with `parameters` (an empty dict if it has none), to a query. `events`:
        `insert` or `delete` for rows of one sign; `limit`: the most rows of a sign in one delivery. `secret` is the
        NAME of a secret: the service signs with what stands in its environment under `UPSHOT_WEBHOOK_SECRET_<NAME>`. If
        the answer is lost it is not sent again: look into `list()`."""
        subject = {"view": view} if parameters is None else {"query": view, "parameters": dict(parameters)}
        content = {**subject, "url": url, "secret": secret, "where": where, "every": every, "since": since}
        content |= {"events": events, "limit": limit}
        given = {name: value for name, value in content.items() if value is not None}
        return self._requests.post("/subscriptions", given, repeatable=False)

    def list(self) -> Sequence[Mapping[str, Any]]:
        return tuple(self._requests.get("/subscriptions").get("subscriptions") or ())

    def get(self, id: str) -> dict[str, Any]:
        return self._requests.get(self._path(id))

    def remove(self, id: str) -> None:
        self._requests.delete(self._path(id))

    def resume(self, id: str, *, skip: bool = False) -> dict[str, Any]:
        """Goes on with one that was suspended, from its cursor; `skip` leaves out what could not be delivered."""
        return self._requests.post(f"{self._path(id)}/resume", {"skip": skip}, repeatable=not skip)

    def deliver(self, id: str) -> dict[str, Any]:
        """Delivers now what has changed, for a subscription on demand."""
        return self._requests.post(f"{self._path(id)}/deliver", repeatable=True)

    def dead_letters(self, id: str) -> Sequence[Mapping[str, Any]]:
        """The deliveries that failed, each with its reason."""
        return tuple(self._requests.get(f"{self._path(id)}/dead-letters").get("dead_letters") or ())

    @staticmethod
    def _path(id: str) -> str:
        return f"/subscriptions/{segment(id)}"


TOKEN = "UPSHOT_TOKEN"
"""The environment variable with the token, unless one is given."""


T = TypeVar("T")


_ATTEMPTS = 5

_NAME = re.compile(r"\s*[\w?]+\s*")
"""A view, and not a query."""


class _Expired(Exception):
    """The pages of an answer are not kept any more: it is asked for again from its beginning."""


class Answer(Rows):
    """Rows, and the version they were read at."""

    __slots__ = ("version",)

    def __init__(self, rows: Rows, version: int) -> None:
        super().__init__(rows.schema, rows._source)
        self.version = version


class AnswerPage(Answer):
    """Rows in an order, a page of them; `next` asks for the page behind it, None if there is none."""

    __slots__ = ("next",)

    def __init__(self, answer: Answer, next: str | None) -> None:
        super().__init__(answer, answer.version)
        self.next = next


class Client:
    """Usable from several threads. Calls raise the errors that a database in process raises; what can pass (no
    connection, a service that restarts) is tried again for `retry_for` seconds before it is raised.

    `token` is taken from the environment (`UPSHOT_TOKEN`) unless given; `ca` is a file with the certificates of the
    authorities to trust; `timeout` bounds the silence within one answer, in seconds; `largest` its bytes.
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
        """Ends idle connections. Copies go on until they are closed themselves."""
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
        """Commits, once, however often it has to be sent. If no answer came in time, `outcome-unknown` is raised: the
        same call with the `key` it names settles the doubt. With `expect`, as in `{"delete": {"closure": [(1, 3)]}}`,
        it is committed only if these rows are there in the end (`insert`), and those are not (`delete`)."""
        body = transaction_body({"insert": insert, "delete": delete, "upsert": upsert, "replace": replace}, meta)
        if expect is not None:
            body["expect"] = transaction_body(expect)
        key = key or uuid.uuid4().hex
        headers = {"Idempotency-Key": key}
        try:
            content = self._requests.post("/transactions", body, headers, repeatable=True)
        except ConstraintError as error:
            raise self._with_values(error) from None
        except Error as error:
            if getattr(error, "sent", False):
                raise in_doubt(error, key) from None
            raise
        return Outcome(content, self._understood)

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
        return Outcome(self._requests.post("/what-if", body, repeatable=True), self._understood)

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
        """The minimal sets of base changes after which these rows are there, and those are not, in views or base
        relations, and no constraint is newly violated: the cheapest first, at most so many. `repair` names a constraint
        whose witnesses are to go, or is `*`; `bounds` is an `upshot.Bounds`, or a dict with some of its names. Rows to
        delete may be a pattern, as in `delete={"access": 'access("ann", _)'}`; with `prefer="least_side_effects"` those
        come first whose changes affect the fewest other rows of views."""
        body = realizations_body(insert, delete, frozen, cost, bounds)
        body |= {"limit": limit, "side_effect_free_first": side_effect_free_first}
        if repair is not None:
            body["repair"] = repair
        if prefer is not None:
            body["prefer"] = prefer
        content = self._requests.post("/realizations", body, repeatable=True)
        return self._understood(lambda relations: read_realizations(content, relations))

    def apply(
        self, realization: Realization, values: Mapping[str, Any] | None = None, *, key: str | None = None
    ) -> Outcome:
        """Commits a realization, with `values` for its placeholders by name, once, as `transaction` does. It is proven
        again then: what would no longer bring about what was asked for is refused (`not-a-realization`)."""
        insert, delete = filled(realization, values)
        try:
            return self.transaction(insert=insert, delete=delete, expect=realization.expect, key=key)
        except DataError as error:
            if error.code != "not-as-expected":
                raise
            raise not_any_more(realization, error.message) from None

    def _with_values(self, error: ConstraintError) -> ConstraintError:
        """The same error, its witnesses as Python values."""
        listed = {name: [list(row) for row in rows] for name, rows in error.violations.items()}
        with suppress(Error):  # the rejection matters more than the types of its witnesses
            typed = self._understood(lambda relations: read_witnesses(listed, relations))
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
                raise _Expired from None  # the service was restarted in between, for one
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
        asked = {"limit": limit, "order": order, "after": after, "at": at}
        chosen = {name: value for name, value in asked.items() if value is not None}
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
        shown = json.dumps([json_value(value, "a value of the row") for value in row])
        content = self._requests.get(f"/views/{segment(view)}/history", {"row": shown})
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
        values = None if row is None else [json_value(value, "a value of the row") for value in row]
        asked = None if values is None else json.dumps(values, ensure_ascii=False, separators=(",", ":"))
        question: dict[str, Any] = {"row": asked, "limit": limit, "depth": depth, "changed_in": changed_in}
        question |= {"fixes": fixes, "seconds": seconds}
        path = f"/explanations/{segment(view)}"
        if format == "json":
            return self._requests.get(path, question)
        return self._requests.get_text(path, {**question, "format": format})

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
            words = f"the changes of `{view}` since version {since} are not kept"
            raise UsageError(words, code="history-not-kept", help=hint)
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
        on_change: Callback | None = None,
        on_trouble: Callable[[Error], None] | None = None,
        state: str | os.PathLike[str] | None = None,
        silence: float = SILENCE,
        **parameters: Any,
    ) -> Copy:
        """A copy of the view that stays exactly current, once it holds an answer. `view` may be a query, a rule body or
        a SELECT, with values for its `$x` or `:x` as `parameters`. `since`: the rows as they were at
        that version, and then every change after it; `every`: net changes, at most one in so many seconds; `state`: a
        file that keeps the copy, to go on from when the client starts again, whatever `since` says then; `on_trouble`
        is told of each connection that ended. A connection without a sign for `silence` seconds is given up."""
        if since is not None and (isinstance(since, bool) or since < 0):
            raise UsageError("`since` must be a version", code="wrong-argument", help="0 is the empty database")
        bound = {name: json_value(value, f"parameter `{name}`") for name, value in parameters.items()}
        subject = Followed(view, where, bound if bound or not _NAME.fullmatch(view) else None)
        following = Following(self._requests, self._schema, subject, every, silence, self._largest, on_trouble)
        return following.copy(since, on_change, state, self._retry_for)

    # ---- what rows are ------------------------------------------------------------------------

    def _schema(self, view: str) -> Schema:
        """The columns of a relation as they are now."""
        relations = self.program().relations
        if view not in relations:
            hint = "`client.program().relations` lists what this token may read"
            raise unknown_relation(view, relations, otherwise=hint, code="not-found")
        return relations[view]

    def _understood(self, read: Callable[[Mapping[str, Schema]], T]) -> T:
        """Call `read` with the relations; if they are unknown or have changed, fetch them once more."""
        try:
            return read(self._relations)
        except (KeyError, JsonMisfit):
            relations = self.program().relations
        try:
            return read(relations)
        except (KeyError, JsonMisfit) as error:
            raise unexpected(f"rows do not match the program: {error}") from None


def _answer(name: str, columns: Any, rows: Any, version: int) -> Answer:
    try:
        return Answer(read_rows(read_schema(name, columns), rows), version)
    except JsonMisfit as misfit:
        raise unexpected(str(misfit)) from None
