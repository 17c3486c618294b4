"""What a service answers: transactions, views, queries, and everything about them."""

from __future__ import annotations

import http.client
import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest

import upshot
from tests.service.bank import bearer, filled, served
from tests.service.served_process import PATIENCE
from tests.service.serving import CLOSURE, Running

BANK = "everything"


@pytest.fixture
def closure() -> Iterator[Running]:
    database = upshot.connect()
    database.define(CLOSURE)
    with Running(database) as running:
        yield running


def commit(running: Running, **body: Any) -> Any:
    status, answer, _ = running.request("POST", "/transactions", body)
    assert status == 200, answer
    return answer


def raw(running: Running, path: str, accept: str) -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=PATIENCE)
    try:
        connection.request("GET", path, headers={"accept": accept})
        answer = connection.getresponse()
        return answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()


def test_a_transaction_is_answered_with_its_version_and_every_change(closure: Running) -> None:
    answer = commit(closure, insert={"edge": [["a", "b"], {"x": "b", "y": "c"}]})
    assert answer == {
        "version": 2,
        "changes": {
            "closure": {"insert": [["a", "b"], ["a", "c"], ["b", "c"]], "delete": []},
            "edge": {"insert": [["a", "b"], ["b", "c"]], "delete": []},
        },
        "firings": [],
        "violations": {},
        "repaired": {},
    }
    assert commit(closure, delete={"edge": [["b", "c"]]})["changes"]["closure"]["delete"] == [["a", "c"], ["b", "c"]]
    assert commit(closure, replace={"edge": [["x", "y"]]})["changes"]["closure"] == {
        "insert": [["x", "y"]],
        "delete": [["a", "b"]],
    }


def test_a_row_both_inserted_and_deleted_cancels_out(closure: Running) -> None:
    both = {"edge": [["a", "b"]]}
    assert commit(closure, insert=both, delete=both)["changes"] == {}


def test_a_view_is_read_whole_in_part_and_in_pages_of_one_version(closure: Running) -> None:
    commit(closure, insert={"edge": [[f"n{i}", f"n{i + 1}"] for i in range(9)]})
    status, whole, _ = closure.request("GET", "/views/closure")
    assert status == 200
    assert (whole["view"], whole["version"], len(whole["rows"]), "next" in whole) == ("closure", 2, 45, False)
    assert whole["columns"] == [{"name": "x", "type": "symbol"}, {"name": "y", "type": "symbol"}]
    _, part, _ = closure.request("GET", "/views/closure?where=closure(%22n7%22,Y)")
    assert part["rows"] == [["n7", "n8"], ["n7", "n9"]]

    rows, after = [], ""
    while True:
        _, page, _ = closure.request("GET", f"/views/closure?limit=10{after}")
        assert page["version"] == 2
        rows += page["rows"]
        if "next" not in page:
            break
        after = f"&after={page['next']}"
        commit(closure, insert={"edge": [["other", f"m{len(rows)}"]]})
    assert rows == whole["rows"]


def test_a_page_of_another_view_or_made_up_is_refused(closure: Running) -> None:
    commit(closure, insert={"edge": [["a", "b"], ["b", "c"]]})
    _, page, _ = closure.request("GET", "/views/closure?limit=1")
    status, answer, _ = closure.request("GET", f"/views/edge?limit=1&after={page['next']}")
    assert (status, answer["error"]["code"]) == (410, "page-expired")
    for cursor in ("x", "WzFd", "bnVsbA", "W10"):
        status, answer, _ = closure.request("GET", f"/views/closure?after={cursor}")
        assert (status, answer["error"]["code"]) == (400, "bad-cursor")


def test_a_view_comes_as_lines_of_json_and_as_arrow(closure: Running) -> None:
    commit(closure, insert={"edge": [["a", "b"], ["b", "ü\n"]]})
    status, body, head = raw(closure, "/views/edge", "application/x-ndjson")
    assert (status, head["content-type"], head["upshot-version"]) == (200, "application/x-ndjson", "2")
    assert [json.loads(line) for line in body.decode().splitlines()] == [["a", "b"], ["b", "ü\n"]]
    status, body, head = raw(closure, "/views/edge?limit=1", "application/vnd.apache.arrow.stream")
    assert status == 200
    assert head["upshot-next"]
    assert pyarrow.ipc.open_stream(io.BytesIO(body)).read_all().to_pylist() == [{"x": "a", "y": "b"}]
    status, body, _ = raw(closure, "/views/edge", "image/png")
    assert (status, json.loads(body)["error"]["code"]) == (406, "not-acceptable")


def test_a_query_binds_its_parameters(closure: Running) -> None:
    commit(closure, insert={"edge": [["a", "b"], ["b", "c"]]})
    body = {"query": "closure($x, Y), !edge($x, Y)", "parameters": {"x": "a"}}
    assert closure.request("POST", "/query", body)[1] == {
        "version": 2,
        "columns": [{"name": "Y", "type": "symbol"}],
        "rows": [["c"]],
    }
    status, answer, _ = closure.request("POST", "/query", {"query": "closure($x, Y"})
    assert status == 400
    assert answer["error"]["details"]["diagnostics"][0]["line"] == 1


def test_a_rejected_transaction_names_its_witnesses_and_changes_nothing(tmp_path: Path) -> None:
    with served(tmp_path) as bank:
        body = {"insert": {"account": [["alice-secret", "DE-other"]]}}
        status, answer, _ = bank.request("POST", "/transactions", body, bearer(BANK))
        assert (status, answer["error"]["code"], answer["error"]["retryable"]) == (409, "key-violation", False)
        assert answer["error"]["details"]["violations"]["account"] == [
            ["alice-secret", "DE-other"],
            ["alice-secret", "DE-secret-1"],
        ]
        assert bank.database.version == 2
        body = {"upsert": {"account": [["alice-secret", "DE-other"]]}}
        assert bank.request("POST", "/transactions", body, bearer(BANK))[0] == 200


def test_what_if_shows_the_wave_and_commits_nothing(tmp_path: Path) -> None:
    with served(tmp_path) as bank:
        body = {
            "insert": {"transfer": [["carol", "alice-secret", 1]]},
            "upsert": {"account": [["alice-secret", "new"]]},
        }
        status, answer, _ = bank.request("POST", "/what-if", body, bearer(BANK))
        assert (status, answer["version"]) == (200, 2)
        assert answer["changes"]["tainted"] == {"insert": [["carol"]], "delete": []}
        assert answer["changes"]["account"] == {
            "insert": [["alice-secret", "new"]],
            "delete": [["alice-secret", "DE-secret-1"]],
        }
        assert answer["violations"] == {"suspicious": [["carol"]]}
        assert answer["firings"] == [{"rule": "raise_alarm", "rows": [["carol"]]}]
        assert bank.database.version == 2


def test_the_cause_of_a_firing_is_told_to_those_who_ask(tmp_path: Path) -> None:
    with served(tmp_path) as bank:
        body = {"insert": {"transfer": [["carol", "alice-secret", 1]]}}
        status, answer, _ = bank.request("POST", "/transactions?causes=true", body, bearer(BANK))
        assert status == 200
        (firing,) = answer["firings"]
        assert (firing["rule"], firing["rows"]) == ("raise_alarm", [["carol"]])
        (cause,) = firing["causes"]
        assert cause["insert"] == {"transfer": [["carol", "alice-secret", 1]]}
        assert cause["delete"] == {}
        assert cause["literals"]
        assert all(each.startswith("+") for each in cause["differentials"])
        (last,) = bank.request("GET", "/rules?causes=true", headers=bearer(BANK))[1]["firings"]
        assert last == {"version": 3, "count": 1, **firing}
        assert "causes" not in bank.request("GET", "/rules", headers=bearer(BANK))[1]["firings"][0]


def test_the_program_its_explanations_and_what_became_of_it_are_shown(tmp_path: Path) -> None:
    with served(tmp_path) as bank:
        ask = lambda path: bank.request("GET", path, headers=bearer(BANK))[1]  # noqa: E731
        body = {"insert": {"transfer": [["carol", "alice-secret", 1]]}, "meta": {"by": "me"}}
        assert bank.request("POST", "/transactions", body, bearer(BANK))[0] == 200
        assert ".rule raise_alarm" in ask("/program")["program"]
        assert ask("/program")["rules"] == ["raise_alarm"]
        assert ask("/explanations/reached")["relations"]["reached"]["recursive"] is True
        why = ask('/explanations/reached?row=["carol","bob-secret"]')
        assert why["derivation"]["statement"] == 'reached("carol", "bob-secret")'
        (constraint,) = [each for each in ask("/constraints")["constraints"] if each["name"] == "suspicious"]
        assert (constraint["policy"], constraint["count"]) == ("warn", 2)
        assert ask("/rules")["firings"][0] == {"version": 3, "rule": "raise_alarm", "count": 1, "rows": [["carol"]]}
        (commit,) = ask("/commits")["commits"]
        assert (commit["version"], commit["changes"]["transfer"]) == (3, {"inserted": 1, "deleted": 0})
        assert commit["seconds"] > 0


def test_a_repeated_key_gets_the_first_outcome_and_nothing_happens_again(tmp_path: Path) -> None:
    store = tmp_path / "store"
    body = {"insert": {"edge": [["a", "b"]]}}
    with upshot.connect(store) as database:
        database.define(CLOSURE)
        database.define(".decl seen(x: symbol) .rule spot(X) when closure(_, X) do insert seen(X).")
    key = {"Idempotency-Key": "one"}
    with Running(upshot.connect(store)) as running:
        first = running.request("POST", "/transactions", body, key)[1]
        assert first["firings"] == [{"rule": "spot", "rows": [["b"]]}]
        running.request("POST", "/transactions", {"delete": body["insert"]})
        assert running.request("POST", "/transactions", body, key)[1] == {**first, "repeated": True}
        assert running.request("GET", "/views/edge")[1]["rows"] == []
        status, answer, _ = running.request("POST", "/transactions", {"delete": body["insert"]}, key)
        assert (status, answer["error"]["code"]) == (409, "key-reused")
    with Running(upshot.connect(store)) as running:
        again = running.request("POST", "/transactions", body, key)[1]
        assert again == {**first, "repeated": True}
        assert running.request("GET", "/views/edge")[1]["rows"] == []


def test_the_same_key_twice_at_once_is_one_transaction(closure: Running) -> None:
    answers: list[Any] = []
    body = {"insert": {"edge": [["a", "b"]]}}

    def send() -> None:
        answers.append(closure.request("POST", "/transactions", body, {"Idempotency-Key": "k"})[1])

    threads = [threading.Thread(target=send) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer["version"] for answer in answers} == {2}
    assert sum("repeated" not in answer for answer in answers) == 1


def test_many_writers_at_once_each_get_their_own_version(closure: Running) -> None:
    versions: list[int] = []

    def send(number: int) -> None:
        for i in range(10):
            versions.append(commit(closure, insert={"edge": [[f"s{number}-{i}", "t"]]})["version"])

    threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(versions) == list(range(2, 82))
    closure.database.verify()


def test_a_transaction_that_fails_in_a_group_fails_alone(closure: Running) -> None:
    closure.database.define(".deny one_way(X, Y) :- edge(X, Y), edge(Y, X).")
    outcomes: list[int] = []

    def send(row: list[str]) -> None:
        outcomes.append(closure.request("POST", "/transactions", {"insert": {"edge": [row]}})[0])

    rows = [["a", "b"], ["b", "a"], *([f"x{i}", f"y{i}"] for i in range(10))]
    threads = [threading.Thread(target=send, args=(row,)) for row in rows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [200] * 11 + [409]
    closure.database.verify()


def test_health_readiness_metrics_and_docs(tmp_path: Path) -> None:
    with served(tmp_path, database=filled()) as bank:
        assert bank.request("GET", "/healthz")[:2] == (200, {"status": "ok"})
        assert bank.request("GET", "/readyz")[:2] == (200, {"status": "ready"})
        assert bank.request("GET", "/metrics")[0] == 401
        bank.request("POST", "/transactions", {"insert": {"public_note": [[2, "x"]]}}, bearer(BANK))
        connection = http.client.HTTPConnection("127.0.0.1", bank.port, timeout=PATIENCE)
        connection.request("GET", "/metrics", headers=bearer(BANK))
        text = connection.getresponse().read().decode()
        assert "upshot_commits_total 1.0" in text
        assert 'upshot_requests_total{method="POST",route="/transactions",status="200"} 1.0' in text
        assert "secret" not in text
        connection.request("GET", "/docs")
        assert b"/views/{name}" in connection.getresponse().read()
        bank.service.stopping = True
        assert bank.request("GET", "/readyz")[1]["error"]["code"] == "not-ready"
