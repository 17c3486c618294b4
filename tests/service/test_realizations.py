"""`POST /realizations`: the goldens, what is asked and answered, how one is committed, and what it never does."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.revise.goldens import CONSISTENT, EITHER, GOLDENS, Golden, name
from tests.service.bank import bearer, filled, served, write_tokens
from tests.service.search_turns import until
from tests.service.served_process import PATIENCE
from tests.service.serving import Running
from upshot.client import Client
from upshot.service.access.scopes import Scopes
from upshot.service.access.tokens import Tokens
from upshot.service.service import Service
from upshot.service.settings import RequestBounds, Settings

ACCESS = """
.decl member(person: symbol, team: symbol)
.decl granted(team: symbol, right: symbol)
.decl suspended(person: symbol, right: symbol)
.decl access(person: symbol, right: symbol)
access(P, R) :- member(P, T), granted(T, R), !suspended(P, R).
.decl team(name: symbol)
.deny unknown(T) :- member(_, T), !team(T).
"""
TEAMS = {
    "team": [("ops",), ("web",)],
    "member": [("ann", "ops"), ("bob", "ops"), ("ann", "web")],
    "granted": [("ops", "deploy"), ("web", "publish")],
}
HARD = """
.decl e(x: number, y: number)
.decl p(x: number, y: number)
p(X, Y) :- e(X, Y).
p(X, Y) :- e(X, Z), p(Z, Y).
.decl noise(x: number)
"""
TAKE_AWAY = {"delete": {"access": [["ann", "deploy"]]}}


def serving(program: str, settings: Settings | None = None, **facts: list[tuple[Any, ...]]) -> Running:
    database = upshot.connect()
    database.define(program)
    with database.transaction() as tx:
        for name, rows in facts.items():
            tx.insert(name, rows)
    return Running(database, settings)


@pytest.fixture
def access() -> Iterator[Running]:
    with serving(ACCESS, **TEAMS) as running:
        yield running


def asked(running: Running, **body: Any) -> dict[str, Any]:
    status, answer, _ = running.request("POST", "/realizations", body)
    assert status == 200, answer
    found: dict[str, Any] = answer
    return found


def refused(running: Running, path: str, body: Any, **headers: str) -> tuple[int, str]:
    status, answer, _ = running.request("POST", path, body, headers)
    return status, answer["error"]["code"]


def base_changes(answer: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return [(each["insert"], each["delete"]) for each in answer["realizations"]]


# ---- goldens --------------------------------------------------------------------------------------


@pytest.mark.parametrize("golden", GOLDENS, ids=name)
def test_the_worked_examples_have_exactly_their_realizations(golden: Golden) -> None:
    bounds = {"new_constants": golden.new_values}
    with serving(golden.text) as running:
        found = asked(
            running, insert=golden.asked("+"), delete=golden.asked("-"), frozen=list(golden.frozen), bounds=bounds
        )
    assert golden.agrees(
        [f"{sign}{fact}" for sign, part in zip("+-", way, strict=True) for fact in facts(part)]
        for way in base_changes(found)
    )
    assert (found["status"], found["reason"]) == (golden.status, golden.reason)


def facts(rows: dict[str, list[list[Any]]]) -> Iterator[str]:
    """As programs write them, with placeholders for new values."""
    for relation, each in rows.items():
        for row in each:
            shown = (value["placeholder"] if isinstance(value, dict) else json.dumps(value) for value in row)
            yield f"{relation}({', '.join(shown)})"


def test_golden_1_exists_only_through_the_relation_that_is_frozen() -> None:
    with serving(CONSISTENT, r2=[(2,)], s=[(2,)]) as running:
        found = asked(running, insert={"p": [[2]]}, frozen=["r1"])
        assert (found["status"], found["realizations"]) == ("only through frozen", [])


def test_golden_5_says_what_the_placeholder_stands_for_and_what_becomes_of_it() -> None:
    with serving(EITHER, p=[(1,)]) as running:
        found = asked(running, insert={"g": [[1]]})["realizations"]
        assert [each["cost"] for each in found] == [1, 2]
        assert found[1]["placeholders"] == {"?1": "number"}
        assert found[1]["changes"]["p"] == {"insert": [[{"placeholder": "?1"}]], "delete": []}


# ---- what is asked and answered -------------------------------------------------------------------


def test_each_realization_comes_with_all_that_it_would_do(access: Running) -> None:
    found = asked(access, **TAKE_AWAY)
    assert (found["version"], found["status"]) == (2, "all")
    assert found["request"] == {"insert": {}, "delete": {"access": [["ann", "deploy"]]}}
    assert base_changes(found) == [
        ({}, {"member": [["ann", "ops"]]}),
        ({}, {"granted": [["ops", "deploy"]]}),
        ({"suspended": [["ann", "deploy"]]}, {}),
    ]
    revoked = found["realizations"][1]
    assert revoked["changes"]["access"] == {"insert": [], "delete": [["ann", "deploy"], ["bob", "deploy"]]}
    assert [each["side_effects"] for each in found["realizations"]] == [0, 1, 0]
    assert access.database.version == 2


def test_preferences_bounds_and_limit_are_kept(access: Running) -> None:
    found = asked(access, **TAKE_AWAY, frozen=["granted"], cost={"+suspended": 2.5})
    assert [each["cost"] for each in found["realizations"]] == [1, 2.5]
    found = asked(access, **TAKE_AWAY, limit=1)
    assert (len(found["realizations"]), found["status"]) == (1, "more")
    assert found["reason"] == "there may be more than this one"
    found = asked(access, **TAKE_AWAY, limit=3)
    assert (found["status"], found["reason"]) == ("all", "these are all 3")
    found = asked(access, **TAKE_AWAY, side_effect_free_first=True, limit=2)
    assert [each["side_effects"] for each in found["realizations"]] == [0, 0]
    assert (found["status"], found["reason"]) == ("more", "the first 2 of 3, which are all")
    found = asked(access, insert={"access": [["eve", "deploy"]]}, bounds={"size": 1, "new_constants": 0})
    assert base_changes(found) == [({"member": [["eve", "ops"]]}, {})]
    assert found["status"] == "bounds reached"


def test_what_holds_already_takes_nothing(access: Running) -> None:
    found = asked(access, insert={"access": [["ann", "deploy"]]}, delete={"member": [["eve", "ops"]]})
    assert base_changes(found) == [({}, {})]


def test_what_contradicts_itself_is_refused(access: Running) -> None:
    body = {"insert": {"access": [["a", "b"]]}, "delete": {"access": [["a", "b"]]}}
    assert refused(access, "/realizations", body) == (400, "request-contradicts")


def test_a_transaction_that_would_be_rejected_is_completed(access: Running) -> None:
    row = {"member": [["cid", "new"]]}
    assert refused(access, "/transactions", {"insert": row}) == (409, "constraint-violated")
    _, answer, _ = access.request("POST", "/transactions", {"insert": row})
    assert "`POST /realizations` with the same rows finds a repair" in answer["error"]["help"]
    found = asked(access, insert=row)
    assert base_changes(found) == [({"member": [["cid", "new"]], "team": [["new"]]}, {})]


def test_violations_there_are_can_be_repaired() -> None:
    with serving(ACCESS, team=[("ops",)], member=[("ann", "ops")]) as running:
        running.database.define(".deny full(T) :- member(_, T), team(T). .deny full existing=keep")
        found = asked(running, repair="full")
        assert found["request"]["delete"] == {"full": [["ops"]]}
        # Without the team its member has an unknown one.
        assert base_changes(found) == [({}, {"member": [["ann", "ops"]]})]
        assert found["realizations"][0]["changes"]["full"] == {"insert": [], "delete": [["ops"]]}
        assert base_changes(asked(running, repair="*")) == base_changes(found)
        assert base_changes(asked(running, repair="unknown")) == [({}, {})]


# ---- committing one -------------------------------------------------------------------------------


def commit_of(found: dict[str, Any], number: int) -> dict[str, Any]:
    way = found["realizations"][number]
    return {"insert": way["insert"], "delete": way["delete"], "expect": found["request"]}


def test_a_realization_is_committed_by_a_transaction_that_expects_what_was_asked_for(access: Running) -> None:
    body = commit_of(asked(access, **TAKE_AWAY), 0)
    for repeated in (None, True):
        status, answer, _ = access.request("POST", "/transactions", body, {"idempotency-key": "k"})
        assert (status, answer["version"], answer.get("repeated")) == (200, 3, repeated)
    assert answer["changes"]["access"]["delete"] == [["ann", "deploy"]]
    status, answer, _ = access.request("POST", "/transactions", {**body, "expect": {}}, {"idempotency-key": "k"})
    assert (status, answer["error"]["code"]) == (409, "key-reused")


def test_a_realization_that_would_no_longer_do_is_refused_and_nothing_happens(access: Running) -> None:
    body = commit_of(asked(access, **TAKE_AWAY), 0)
    more = {"insert": {"team": [["sre"]], "member": [["ann", "sre"]], "granted": [["sre", "deploy"]]}}
    assert access.request("POST", "/transactions", more)[0] == 200
    status, answer, _ = access.request("POST", "/transactions", body)
    assert (status, answer["error"]["code"]) == (409, "not-as-expected")
    assert answer["error"]["message"] == 'row `access("ann", "deploy")` would still exist'
    assert access.database.version == 3
    access.database.verify()


def test_those_who_commit_together_with_one_that_is_refused_are_not_held_up(access: Running) -> None:
    go_on, reached = threading.Event(), threading.Event()

    def hold() -> None:
        reached.set()
        go_on.wait(PATIENCE)

    holding = threading.Thread(target=lambda: access.do(access.service.writer.between_commits(hold)))
    holding.start()
    assert reached.wait(PATIENCE)
    bodies: list[dict[str, Any]] = [
        {"insert": {"team": [["a"]]}, "expect": {"insert": {"team": [["a"]]}}},
        {"insert": {"team": [["b"]]}, "expect": {"delete": {"team": [["a"]]}}},
        {"insert": {"team": [["c"]]}, "expect": {"insert": {"team": [["a"], ["c"]]}}},
    ]
    found: list[int] = []
    threads = []
    for body in bodies:
        threads.append(
            threading.Thread(target=lambda body=body: found.append(access.request("POST", "/transactions", body)[0]))
        )
        threads[-1].start()
        until(lambda: len(access.service.writer._queue) == len(threads))
    go_on.set()
    for thread in (*threads, holding):
        thread.join()
    assert sorted(found) == [200, 200, 409]
    assert set(access.database.rows("team")) == {("ops",), ("web",), ("a",), ("c",)}


# ---- scopes ---------------------------------------------------------------------------------------


def send(running: Running, token: str, body: Any, path: str = "/realizations") -> tuple[int, Any]:
    return running.request("POST", path, body, bearer(token))[:2]


def test_effects_and_their_number_are_of_what_may_be_read(tmp_path: Path) -> None:
    with served(tmp_path) as running:
        body = {"insert": {"public_note": [[5, "alice-secret"]]}}
        status, mine = send(running, "reader", body)
        assert status == 200, mine
        assert mine["realizations"][0]["changes"].keys() == {"public_note", "note_count", "noted"}
        _, all_of_it = send(running, "everything", body)
        more = {"public_note", "note_count", "noted", "noted_reach"}
        assert all_of_it["realizations"][0]["changes"].keys() == more
        counts = [each["realizations"][0]["side_effects"] for each in (mine, all_of_it)]
        assert counts == [3, 4]
        # The order by side effects is that of the side effects that may be read.
        _, same = send(running, "reader", {**body, "side_effect_free_first": True})
        assert same["realizations"] == mine["realizations"]


SOME = {
    "above": frozenset({"reached", "transfer"}),
    "with_constraint": frozenset(
        {"reached", "transfer", "blacklisted", "account", "launderer", "tainted", "alarm", "raise_alarm"}
    ),
    "without_rule": frozenset({"reached", "transfer", "blacklisted", "account", "launderer", "tainted", "alarm"}),
    "without_key": frozenset({"reached", "transfer", "blacklisted", "launderer", "tainted", "alarm", "raise_alarm"}),
}


@pytest.fixture(scope="module")
def scoped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    tokens = {name: Scopes(name, read) for name, read in SOME.items()}
    file = write_tokens(tmp_path_factory.mktemp("tokens") / "tokens.toml", tokens)

    def prepare(service: Service) -> None:
        service.authenticator.tokens = Tokens(file)

    with Running(filled(), prepare=prepare) as running:
        yield running


@pytest.mark.parametrize(
    ("token", "may"), [("above", False), ("with_constraint", True), ("without_rule", False), ("without_key", False)]
)
def test_the_token_reads_all_that_the_answer_can_hang_on(scoped: Running, token: str, may: bool) -> None:
    """The constraint, the rule and all that they rest on are part of it; a constraint that only warns is not."""
    row = [["bob-secret", "zoe"]]
    for body in ({"insert": {"reached": row}}, {"delete": {"reached": row}}, {"insert": {"transfer": [["a", "b", 1]]}}):
        status, answer = send(scoped, token, body)
        if may:
            assert status == 200
            assert answer["realizations"]
            assert "suspicious" not in json.dumps(answer)
        else:
            assert (status, answer["error"]["code"]) == (403, "forbidden")
            assert answer["error"]["message"] == "the realizations would disclose data that this token may not read"


def test_an_objective_over_all_views_needs_a_token_that_reads_them(scoped: Running, tmp_path: Path) -> None:
    body = {"insert": {"reached": [["bob-secret", "zoe"]]}, "prefer": "least_side_effects"}
    status, answer = send(scoped, "with_constraint", body)
    assert (status, answer["error"]["code"]) == (403, "forbidden")
    with served(tmp_path) as running:
        assert send(running, "everything", body)[0] == 200
        assert send(running, "reader", {"delete": {"reached": "reached(_, _)"}})[0] == 404


def test_recursive_views_that_can_need_any_number_of_new_values_are_named() -> None:
    declared = ".decl edge(x: number, y: number) .decl path(x: number, y: number) "
    with serving(
        declared + "path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z).", edge=[(1, 2)]
    ) as running:
        assert asked(running, insert={"path": [[5, 6]]}, limit=1)["unbounded"] == ["path"]
        assert "unbounded" not in asked(running, delete={"path": [[1, 2]]})
        with Client(f"http://127.0.0.1:{running.port}") as client:
            assert client.realize({"path": [(5, 6)]}, limit=1).unbounded == ("path",)


def test_a_pattern_is_the_rows_that_match_it_when_the_search_begins(access: Running) -> None:
    found = asked(access, delete={"access": 'access("ann", _)'}, prefer="least_side_effects")
    rows = found["request"]["delete"]["access"]
    assert rows
    assert all(row[0] == "ann" for row in rows)
    assert found["realizations"][0]["side_effects"] == 0
    assert asked(access, delete={"access": ['access("nobody", _)']})["reason"] == "nothing to do: already true"


def test_whether_the_answer_is_refused_does_not_hang_on_the_data(scoped: Running) -> None:
    found = {
        json.dumps(send(scoped, "above", {"delete": {"reached": [[x, y]]}})[1])
        for x in ("alice-secret", "nobody")
        for y in ("bob-secret", "nobody")
    }
    assert len(found) == 1


def test_all_constraints_are_repaired_by_those_who_read_all_of_them(scoped: Running, tmp_path: Path) -> None:
    assert send(scoped, "with_constraint", {"repair": "*"})[0] == 403
    assert send(scoped, "with_constraint", {"repair": "launderer"})[0] == 200
    assert send(scoped, "with_constraint", {"repair": "suspicious"})[0] == 404


def test_what_is_expected_must_be_readable(tmp_path: Path) -> None:
    with served(tmp_path) as running:
        write = {"insert": {"public_note": [[9, "x"]]}}
        for name in ("reached", "nosuch"):
            status, answer = send(
                running, "noter", {**write, "expect": {"insert": {name: [["a", "b"]]}}}, "/transactions"
            )
            assert (status, answer["error"]["code"]) == (404, "not-found")
        status, answer = send(running, "noter", {**write, "expect": {"insert": {"note_count": [[7]]}}}, "/transactions")
        assert (status, answer["error"]["message"]) == (409, "row `note_count(7)` would not exist")
        status, _ = send(running, "noter", {**write, "expect": {"insert": {"note_count": [[2]]}}}, "/transactions")
        assert status == 200
        # Searching is reading, committing is writing.
        status, answer = send(running, "reader", {**write, "expect": {}}, "/transactions")
        assert (status, answer["error"]["code"]) == (403, "forbidden")


# ---- bounds ---------------------------------------------------------------------------------------


def test_rows_of_effects_that_may_not_be_read_do_not_count(tmp_path: Path) -> None:
    database = filled()
    with database.transaction() as tx:
        tx.insert("transfer", [("alice-secret", f"x{each}", 1) for each in range(30)])
    with served(tmp_path, Settings(bounds=RequestBounds(rows=8)), database) as running:
        body = {"insert": {"public_note": [[each, "alice-secret"] for each in range(10, 14)]}}
        assert send(running, "everything", body)[0] == 422
        status, answer = send(running, "reader", body)
        assert (status, answer["status"]) == (200, "all")


def test_a_realization_with_more_effects_than_an_answer_may_have_is_refused() -> None:
    with serving(HARD, Settings(bounds=RequestBounds(rows=50)), e=[(x, x + 1) for x in range(20)]) as running:
        status, answer, _ = running.request("POST", "/realizations", {"delete": {"p": [[9, 10]]}})
        assert (status, answer["error"]["code"]) == (422, "too-many-rows")
        found = asked(running, delete={"p": [[0, 2]]})
        assert found["status"] == "bounds reached"
        assert len(found["realizations"]) == 1


def test_why_an_absent_row_is_not_there_is_explained(access: Running) -> None:
    path = "/explanations/access?row=" + "%5B%22eve%22,%22deploy%22%5D"
    status, answer, _ = access.request("GET", path)
    assert status == 200
    assert answer["why_not"]["parts"][0]["rule"] == "access(P, R) :- member(P, T), granted(T, R), !suspended(P, R)."
    assert "derivation" not in answer
    assert answer["why_not"]["parts"][-1]["statement"] == "becomes true with"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "the request is empty"),
        ({**TAKE_AWAY, "bounds": {"minutes": 3}}, "unknown key `minutes` in `bounds`"),
        ({**TAKE_AWAY, "bounds": {"new_constants": 999}}, "`new_constants` must be an integer from 0 to "),
        ({**TAKE_AWAY, "bounds": {"size": 0}}, "`size` must be an integer from 1 to 1,000,000,000"),
        ({**TAKE_AWAY, "bounds": {"seconds": -1}}, "`seconds` must be a positive number"),
        ({**TAKE_AWAY, "bounds": {"constants": "x"}}, "`constants` must be a list of at most 1,000 values"),
        ({**TAKE_AWAY, "bounds": {"constants": [[1]]}}, "`constants` must be texts, numbers"),
        ({**TAKE_AWAY, "cost": {"member": -1}}, "the `cost` of `member` must be a number"),
        ({**TAKE_AWAY, "limit": 0}, "`limit` must be an integer from 1 to 1,000"),
        ({**TAKE_AWAY, "prefer": "cheap"}, "`prefer` must be `least_side_effects`"),
        ({"delete": {"access": "access(ann, _)"}}, "has the variable `ann`"),
        ({"insert": {"access": 'access("ann", _)'}}, "must have a list of rows"),
    ],
)
def test_what_is_wrong_with_a_request_is_named_with_a_cure(access: Running, body: dict[str, Any], said: str) -> None:
    status, answer, _ = access.request("POST", "/realizations", body)
    assert (status, said in answer["error"]["message"], bool(answer["error"]["help"])) == (400, True, True), answer


def test_constants_are_tried_where_any_value_would_do(access: Running) -> None:
    found = asked(access, insert={"access": [["eve", "sing"]]}, bounds={"constants": ["choir"], "new_constants": 0})
    assert any(way["insert"].get("team") == [["choir"]] for way in found["realizations"])


def test_a_row_that_is_no_json_is_told_how_a_row_looks(access: Running) -> None:
    status, answer, _ = access.request("GET", "/explanations/access?row=ann")
    assert (status, answer["error"]["help"]) == (
        400,
        "`row` must be a JSON list of values, as in `?row=[1,3]`",
    )
