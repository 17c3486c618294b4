"""Requests, answers and errors of a client."""

from __future__ import annotations

import datetime as dt
import math
import ssl
import threading
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.client.scripted_service import EDGE_COLUMNS, PROGRAM, Request, ScriptedService, answer, refused
from upshot.client import Client
from upshot.core.errors import (
    ConstraintError,
    DataError,
    EngineError,
    LimitError,
    ProgramError,
    RuleError,
    UsageError,
)

COMMITTED = {
    "version": 8,
    "changes": {"edge": {"insert": [[1, 2]], "delete": []}},
    "firings": [],
    "violations": {},
    "repaired": {},
}


def service_of(*answers: Any) -> ScriptedService:
    """Gives these answers, one to each request that is not about the program; the last one to all that follow."""
    left = list(answers)

    def script(request: Request) -> Iterable[bytes]:
        if request.path == "/program":
            return answer(PROGRAM)
        chosen = left.pop(0) if len(left) > 1 else left[0]
        return chosen(request) if callable(chosen) else answer(chosen)

    return ScriptedService(script)


def cut(_: Request) -> Iterator[bytes]:
    """The connection ends without an answer."""
    return iter(())


def asked(service: ScriptedService) -> list[Request]:
    return [request for request in service.requests if request.path != "/program"]


# ---- transactions ------------------------------------------------------------------------------------


def test_a_transaction_is_sent_with_its_values_and_answers_with_its_changes() -> None:
    moment = dt.datetime(2026, 1, 31, 10, tzinfo=dt.timezone(dt.timedelta(hours=1)))
    with service_of(COMMITTED) as service, Client(service.url) as client:
        done = client.transaction(
            insert={"edge": [(1, 2)], "t": [{"d": dt.date(2026, 1, 31), "n": None}]},
            delete={"t": [[math.nan, Decimal("1.50"), moment]]},
            meta={"who": "me"},
        )
        assert done.changes["edge"].inserted == {(1, 2)}
        request = asked(service)[0]
    assert (request.method, request.path) == ("POST", "/transactions")
    assert request.json() == {
        "insert": {"edge": [[1, 2]], "t": [{"d": "2026-01-31", "n": None}]},
        "delete": {"t": [["NaN", "1.50", "2026-01-31T09:00:00Z"]]},
        "meta": {"who": "me"},
    }
    assert len(request.headers["idempotency-key"]) == 32
    assert done.version == 8
    assert list(done.changes) == ["edge"]


def test_a_transaction_whose_answer_was_lost_is_sent_again_with_the_same_key() -> None:
    busy = lambda _: refused(503, "too-busy", retryable=True)  # noqa: E731
    with service_of(cut, busy, lambda _: answer(b"<html>", 502), COMMITTED) as service:
        assert Client(service.url).transaction(insert={"edge": [(1, 2)]}).version == 8
        requests = asked(service)
    assert len(requests) >= 4
    assert len({(request.headers["idempotency-key"], request.body) for request in requests}) == 1


@pytest.mark.parametrize("later", [cut, lambda _: refused(503, "too-busy", retryable=True)])
def test_a_transaction_that_may_have_been_committed_says_so_and_names_its_key(later: Any) -> None:
    with service_of(cut, cut, later) as service, pytest.raises(EngineError) as error:
        Client(service.url, retry_for=0.1).transaction(insert={"edge": [(1, 2)]})
    assert error.value.code == "outcome-unknown"
    assert error.value.retryable
    key = asked(service)[0].headers["idempotency-key"]
    assert key in error.value.help
    with service_of(COMMITTED) as service:
        Client(service.url).transaction(insert={"edge": [(1, 2)]}, key=key)
        assert asked(service)[0].headers["idempotency-key"] == key


def test_a_transaction_is_known_to_be_committed_even_if_its_columns_cannot_be_asked_for() -> None:
    with ScriptedService(lambda request: answer(COMMITTED) if request.method == "POST" else iter(())) as service:
        done = Client(service.url, retry_for=0.1).transaction(insert={"edge": [(1, 2)]})
        assert done.version == 8
        with pytest.raises(EngineError, match="no response"):
            _ = done.changes


def test_a_transaction_that_was_never_sent_is_no_doubt() -> None:
    with pytest.raises(EngineError) as error:
        Client("http://127.0.0.1:9", retry_for=0.1).transaction(insert={"edge": [(1, 2)]})
    assert error.value.code == "unreachable"


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([7], "wrong-row"),
        ([(object(),)], "wrong-type"),
        ([("\ud800",)], "wrong-type"),
        ([(dt.datetime(2026, 1, 31),)], "wrong-type"),
    ],
)
def test_values_that_no_column_holds_are_refused_before_anything_is_sent(rows: list[Any], code: str) -> None:
    with service_of(COMMITTED) as service, pytest.raises(DataError) as error:
        Client(service.url).transaction(insert={"edge": rows})
    assert error.value.code == code
    assert service.requests == []


# ---- reading -----------------------------------------------------------------------------------------


def test_rows_come_as_values_with_their_version() -> None:
    columns = [{"name": "d", "type": "date"}, {"name": "m", "type": "decimal(6,2)?"}]
    content = {"view": "v", "version": 5, "columns": columns, "rows": [["2026-01-31", "1.50"], ["2026-02-01", None]]}
    with service_of(content) as service:
        rows = Client(service.url).rows("v", where='v("a b", Y)')
        assert asked(service)[0].parameters == {"where": 'v("a b", Y)'}
    assert rows == {(dt.date(2026, 1, 31), Decimal("1.50")), (dt.date(2026, 2, 1), None)}
    assert (rows.version, rows.columns) == (5, ("d", "m"))


def test_pages_are_put_together_and_must_be_of_one_version() -> None:
    page = {"view": "edge", "version": 5, "columns": EDGE_COLUMNS, "rows": [[1, 2]], "next": "x y"}
    with service_of(page, {**page, "rows": [[2, 3]], "next": None}) as service:
        assert Client(service.url).rows("edge") == {(1, 2), (2, 3)}
        assert asked(service)[1].parameters == {"after": "x y"}
    with service_of(page, {**page, "version": 6, "next": None}) as service, pytest.raises(EngineError, match="version"):
        Client(service.url).rows("edge")


def test_pages_that_are_gone_are_asked_for_from_the_beginning() -> None:
    page = {"view": "edge", "version": 5, "columns": EDGE_COLUMNS, "rows": [[1, 2]], "next": "x"}
    later = {**page, "version": 7, "rows": [[3, 4]]}
    last = {**later, "rows": [[5, 6]], "next": None}
    with service_of(page, lambda _: refused(410, "page-expired"), later, last) as service:
        rows = Client(service.url).rows("edge")
    assert (rows.version, rows) == (7, [(3, 4), (5, 6)])


def test_a_query_binds_its_parameters() -> None:
    with service_of({"version": 3, "columns": EDGE_COLUMNS[:1], "rows": [[2]]}) as service:
        assert Client(service.url).query("closure($x, Y)", x=dt.date(2026, 1, 31)) == {(2,)}
        assert asked(service)[0].json() == {"query": "closure($x, Y)", "parameters": {"x": "2026-01-31"}}


def test_names_are_one_part_of_the_path() -> None:
    with service_of({"strategy": "auto"}) as service:
        Client(service.url + "/upshot/").explain("a/../b?c", row=(1, "x"))
        assert asked(service)[0].path == "/upshot/explanations/a/../b?c"
        assert asked(service)[0].parameters == {"row": '[1,"x"]'}


def test_a_program_lists_relations_with_their_types() -> None:
    with service_of() as service:
        program = Client(service.url).program()
    assert str(program.relations["edge"]) == "edge(x: number, y: number)"


def test_changes_since_a_version_are_one_net_change() -> None:
    with service_of({"version": 9, "since": 7, "insert": [[3, 4]], "delete": [[1, 2]]}) as service:
        assert Client(service.url).changes("edge", since=7) == (9, [(3, 4)], [(1, 2)])
    forgotten = {"version": 9, "rows": [], "columns": EDGE_COLUMNS, "reason": "history-not-kept"}
    with service_of(forgotten) as service, pytest.raises(UsageError) as error:
        Client(service.url).changes("edge", since=7)
    assert error.value.code == "history-not-kept"


def test_several_threads_share_a_client() -> None:
    with service_of({"version": 1, "columns": EDGE_COLUMNS, "rows": [[1, 2]]}) as service:
        client, found = Client(service.url), list[Any]()
        threads = [threading.Thread(target=lambda: found.append(client.rows("edge"))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 8


# ---- errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "code", "more", "kind"),
    [
        (400, "wrong-type", {"kind": "DataError"}, DataError),
        (400, "unknown-relation", {"kind": "UsageError"}, UsageError),
        (400, "syntax-error", {"kind": "ProgramError"}, ProgramError),
        (400, "wrong-arity", {}, DataError),
        (404, "not-found", {}, UsageError),
        (409, "constraint-violated", {"details": {"violations": {"edge": [[1, 1]]}}}, ConstraintError),
        (409, "cascade-without-end", {}, RuleError),
        (413, "too-large", {}, LimitError),
        (500, "internal-error", {}, EngineError),
    ],
)
def test_errors_come_back_as_the_classes_of_the_same_mistake(
    status: int, code: str, more: dict[str, Any], kind: type[Exception]
) -> None:
    with service_of(lambda _: refused(status, code, **more)) as service, pytest.raises(kind) as error:
        Client(service.url).transaction(insert={"edge": [(1, 1)]})
    found: Any = error.value
    assert (found.code, found.help, found.retryable) == (code, "do something", False)
    if kind is ConstraintError:
        assert found.violations == {"edge": [(1, 1)]}
    assert len(asked(service)) == 1


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"version": "1"}', b'{"version": 1}', b"\xff"])
def test_answers_of_another_kind_of_service_are_refused(content: bytes) -> None:
    with service_of(lambda _: answer(content)) as service, pytest.raises(EngineError) as error:
        Client(service.url).rows("edge")
    assert error.value.code == "unexpected-answer"


def test_an_answer_beyond_the_bound_is_refused() -> None:
    with service_of(lambda _: answer(b" " * 10_000)) as service, pytest.raises(LimitError) as error:
        Client(service.url, largest=1000).rows("edge")
    assert error.value.code == "answer-too-large"


def test_a_redirect_is_not_followed() -> None:
    with service_of(lambda _: answer(b"", 302, location="http://example.com/")) as service:
        with pytest.raises(EngineError):
            Client(service.url, "secret-token").rows("edge")
        assert len(service.requests) == 1


@pytest.mark.parametrize("refusal", [False, True])
def test_an_answer_that_is_cut_off_anywhere_is_asked_for_again(refusal: bool) -> None:
    content = {"view": "edge", "version": 5, "columns": EDGE_COLUMNS, "rows": [[1, 2]]}
    whole = b"".join(refused(404, "not-found") if refusal else answer(content))
    for cut_at in range(len(whole)):
        with service_of(lambda _, at=cut_at: iter((whole[:at],)), lambda _: iter((whole,))) as service:
            client = Client(service.url)
            if refusal:
                with pytest.raises(UsageError, match="not-found"):
                    client.rows("edge")
            else:
                assert client.rows("edge") == [(1, 2)]
            assert len(service.requests) == 2, cut_at


# ---- addresses, tokens, certificates -----------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    ["127.0.0.1:80", "ftp://host/", "http://", "http://u:p@host", "http://host/?x=1", "http://host:x", "http://a b"],
)
def test_an_address_that_is_none_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(UsageError) as error:
        Client(url)
    assert error.value.code == "wrong-url"
    assert "u:p" not in str(error.value)


def test_the_token_comes_from_the_environment_and_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPSHOT_TOKEN", "from-the-environment")
    with service_of({"commits": []}) as service:
        client = Client(service.url)
        client.commits(limit=3)
        Client(service.url, "given").commits()
        assert [r.headers["authorization"] for r in service.requests] == ["Bearer from-the-environment", "Bearer given"]
    assert "environment" not in repr(client)


@pytest.mark.parametrize("token", ["", "two words", "line\n", "é"])
def test_a_token_that_cannot_be_one_is_refused(token: str) -> None:
    with pytest.raises(UsageError) as error:
        Client("http://127.0.0.1:1", token)
    assert error.value.code == "wrong-token"
    assert token not in error.value.message or not token


def test_a_token_does_not_cross_a_network_unencrypted() -> None:
    with pytest.raises(UsageError) as error:
        Client("http://example.com", "token")
    assert error.value.code == "token-in-the-clear"
    Client("http://example.com", "token", insecure=True)
    Client("https://example.com", "token")
    Client("http://[::1]:80", "token")


def test_certificates_are_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("")
    for file in (tmp_path / "empty.pem", tmp_path / "none.pem"):
        with pytest.raises(UsageError) as error:
            Client("https://127.0.0.1:1", ca=file)
        assert error.value.code == "wrong-certificates"
    with pytest.raises(UsageError):
        Client("http://127.0.0.1:1", ca=tmp_path / "empty.pem")
    assert ssl.OPENSSL_VERSION


# ---- webhooks ----------------------------------------------------------------------------------------


def test_subscriptions_are_added_and_looked_at() -> None:
    with service_of({"id": "s/1", "subscriptions": [{"id": "s/1"}]}) as service:
        hooks = Client(service.url).subscriptions
        assert hooks.add("edge", "https://example.com/", "NAME", every=5)["id"] == "s/1"
        assert hooks.list() == ({"id": "s/1"},)
        hooks.get("s/1"), hooks.resume("s/1"), hooks.deliver("s/1"), hooks.dead_letters("s/1"), hooks.remove("s/1")
        found = [(r.method, r.path) for r in service.requests]
    assert service.requests[0].json() == {"view": "edge", "url": "https://example.com/", "secret": "NAME", "every": 5}
    one = "/subscriptions/s/1"
    assert found == [
        ("POST", "/subscriptions"),
        ("GET", "/subscriptions"),
        ("GET", one),
        ("POST", f"{one}/resume"),
        ("POST", f"{one}/deliver"),
        ("GET", f"{one}/dead-letters"),
        ("DELETE", one),
    ]


def test_a_subscription_whose_answer_was_lost_is_not_added_twice() -> None:
    with service_of(cut) as service, pytest.raises(EngineError):
        Client(service.url).subscriptions.add("edge", "https://example.com/", "NAME")
    assert len(service.requests) == 1
