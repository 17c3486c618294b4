"""`GET /explanations/{view}` about a row: why it is there, or not, came or went; as data, as text, as a picture."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree

import pytest

import upshot
from tests.service.bank import bearer, write_tokens
from tests.service.serving import Running
from upshot.service.access.scopes import Scopes
from upshot.service.access.sessions import Authenticator
from upshot.service.access.tokens import Tokens
from upshot.service.service import Service

PROGRAM = """
.decl edge(x: number, y: number)
.decl closed(x: number)
.decl reach(x: number, y: number)
reach(X, Y) :- edge(X, Y).
reach(X, Z) :- reach(X, Y), edge(Y, Z).
.decl open(x: number, y: number)
open(X, Y) :- reach(X, Y), !closed(Y).
.decl fan(x: number, n: number)
fan(X, N) :- edge(X, _), N = count : { reach(X, _) }.
.decl ends(x: number)
ends(X) :- edge(_, X), !reach(_, X).
"""


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    database = upshot.connect(tmp_path / "store")
    database.define(PROGRAM)
    with database.transaction(meta={"by": "ann"}) as tx:
        tx.insert("edge", [(1, 2), (2, 3), (3, 1), (1, 3)])
        tx.insert("closed", [(3,)])
    with database.transaction(meta={"by": "secret bob"}) as tx:
        tx.insert("edge", [(3, 4)])
        tx.delete("closed", [(3,)])
    with database.transaction() as tx:
        tx.delete("edge", [(1, 3)])
    with Running(database) as found:
        yield found


def get(running: Running, view: str, headers: dict[str, str] | None = None, **asked: Any) -> tuple[int, str, str]:
    """Status, type and text of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=120)
    try:
        connection.request("GET", f"/explanations/{view}?{urlencode(asked)}", headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers.get_content_type(), answer.read().decode()
    finally:
        connection.close()


def told(running: Running, view: str, **asked: Any) -> dict[str, Any]:
    status, kind, text = get(running, view, **asked)
    assert (status, kind) == (200, "application/json"), text
    found: dict[str, Any] = json.loads(text)
    return found


def code(running: Running, view: str, **asked: Any) -> tuple[int, str]:
    status, _, text = get(running, view, **asked)
    return status, json.loads(text)["error"]["code"]


def test_all_derivations_come_on_request_the_smallest_first(running: Running) -> None:
    smallest = told(running, "reach", row="[2,1]")["derivation"]
    found = told(running, "reach", row="[2,1]", limit=100)
    assert (found["view"], found["version"], found["row"]) == ("reach", 4, [2, 1])
    assert found["derivations"][0] == smallest
    assert [len(each["premises"]) for each in found["derivations"]] == [2]
    assert len(told(running, "open", row="[1,3]", limit=1)["derivations"]) == 1


def test_a_row_that_came_or_went_is_told_down_to_the_base_change_and_its_transaction(running: Running) -> None:
    came = told(running, "open", row="[2,3]", changed_in=3)["why_changed"]
    assert (came["change"], came["version"], came["meta"]) == ("came", 3, {"by": "secret bob"})
    (absent,) = [each for each in came["derivation"]["premises"] if each["kind"] == "absent"]
    assert absent["premises"][0]["statement"] == "closed(3)"
    assert absent["premises"][0]["deleted"]["version"] == 3
    group = told(running, "fan", row="[1,3]", changed_in=3)["why_changed"]
    assert (group["change"], group["derivation"]["statement"]) == ("went", "fan(1, 3)")
    assert code(running, "reach", row="[1,3]", changed_in=4) == (400, "row-not-changed")
    assert code(running, "reach", row="[1,3]", changed_in=99)[0] in (400, 410)
    assert code(running, "reach", row="[1,3]", changed_in=1)[0] in (400, 410)


def test_the_database_stays_as_it_is_and_takes_commits_after_a_look_at_its_past(running: Running) -> None:
    before = set(running.database.rows("reach"))
    for _ in range(3):
        told(running, "reach", row="[3,4]", changed_in=3)
    assert (set(running.database.rows("reach")), running.database.version) == (before, 4)
    assert running.request("POST", "/transactions", {"insert": {"edge": [[4, 5]]}})[0] == 200


@pytest.mark.parametrize("asked", [{"row": "[2,1]"}, {"row": "[4,1]", "depth": 2}, {"row": "[3,4]", "changed_in": 3}])
def test_the_same_as_text_and_as_a_picture(running: Running, asked: dict[str, Any]) -> None:
    status, kind, text = get(running, "reach", **asked, format="text")
    assert (status, kind) == (200, "text/plain")
    assert text.startswith("reach(")
    assert "edge(" in text
    status, kind, picture = get(running, "reach", **asked, format="svg")
    assert (status, kind) == (200, "image/svg+xml")
    assert ElementTree.fromstring(picture).tag.endswith("svg")


def test_all_derivations_are_told_and_drawn_one_below_the_other(running: Running) -> None:
    assert running.request("POST", "/transactions", {"insert": {"edge": [[1, 3]]}})[0] == 200
    trees = told(running, "reach", row="[1,3]", limit=5)["derivations"]
    assert len(trees) == 2
    text = get(running, "reach", row="[1,3]", limit=5, format="text")[2]
    assert len([line for line in text.splitlines() if line.startswith("reach(1, 3)")]) == 2
    drawing = ElementTree.fromstring(get(running, "reach", row="[1,3]", limit=5, format="svg")[2])
    titles = [each.text or "" for each in drawing.iter("{http://www.w3.org/2000/svg}title")]
    assert len([each for each in titles if each.startswith("reach(1, 3)")]) == 2


def test_a_picture_of_a_change_names_its_transaction(running: Running) -> None:
    drawing = ElementTree.fromstring(get(running, "reach", row="[3,4]", changed_in=3, format="svg")[2])
    heading = next(drawing.iter("{http://www.w3.org/2000/svg}text")).text or ""
    assert heading.startswith("reach(3, 4) inserted in version 3, ")


def test_what_does_not_fit_is_refused(running: Running) -> None:
    for asked in (
        {"limit": 0},
        {"limit": 101},
        {"depth": 0},
        {"changed_in": 0},
        {"changed_in": "x"},
        {"format": "pdf"},
    ):
        assert get(running, "reach", row="[1,2]", **asked)[0] in (400, 422), asked
    for asked in ({"limit": 2}, {"format": "svg"}, {"changed_in": 3}, {"depth": 2}):
        assert code(running, "reach", **asked) == (400, "bad-request")


def test_a_derivation_however_deep_is_told(tmp_path: Path) -> None:
    database = upshot.connect()
    database.define(".decl e(x: number, y: number) .decl r(x: number) r(1). r(Y) :- r(X), e(X, Y). .decl d(x: number) "
                    "d(X) :- e(X, _), !r(X).")  # fmt: skip
    with database.transaction() as tx:
        tx.insert("e", [(i, i + 1) for i in range(1, 3000)])
    with Running(database) as running:
        for view, asked in (("r", {}), ("d", {"depth": 2}), ("r", {"limit": 2})):
            status, _, text = get(running, view, row="[2999]", **asked)
            assert status == 200
            assert text.count('"statement"') > 2000
        assert get(running, "r", row="[2999]", format="svg")[0] == 200


def test_notes_of_commits_are_shown_to_nobody_but_an_admin_in_any_form(running: Running, tmp_path: Path) -> None:
    everything = frozenset("*")
    tokens = write_tokens(tmp_path / "tokens.toml", {
        "low": Scopes("low", read=everything), "boss": Scopes("boss", read=everything, admin=True),
    })  # fmt: skip

    def prepare(service: Service) -> None:
        service.authenticator = Authenticator(service.settings, Tokens(tokens))

    running.stop()
    with Running(upshot.connect(tmp_path / "store"), prepare=prepare) as again:
        asks = ({"row": "[3,4]"}, {"row": "[3,4]", "limit": 3}, {"row": "[3,4]", "changed_in": 3})
        for asked in asks:
            for form in ("json", "text", "svg"):
                shown = get(again, "reach", bearer("low"), **asked, format=form)
                assert shown[0] == 200
                assert "secret bob" not in shown[2]
                assert "secret bob" in get(again, "reach", bearer("boss"), **asked, format=form)[2]
        for form in ("json", "text", "svg"):
            absent = {"row": "[4]", "depth": 2, "fixes": 0, "format": form}
            assert "secret bob" not in get(again, "ends", bearer("low"), **absent)[2]
            assert "secret bob" in get(again, "ends", bearer("boss"), **absent)[2]


@pytest.mark.parametrize(
    ("view", "asked", "status", "said", "cure"),
    [
        ("rech", {"row": "[1,2]"}, 404, "unknown relation `rech`", "did you mean `reach`?"),
        ("reach", {"row": "[1]"}, 400, "`row`: a row of `reach` must have 2 values, not 1", "columns: reach(x: number"),
        ("reach", {"row": '[1,"a"]'}, 400, "`row`: column `y`", "columns: reach(x: number"),
        ("reach", {"row": '{"x":1,"z":2}'}, 400, "`row`: unknown column `z`", "columns: reach(x: number"),
        ("reach", {"row": "[1,2"}, 400, "invalid JSON", "as in `?row=[1,3]`"),
        ("reach", {"row": "[1,2]", "changed_in": 99}, 410, "there is no version 99 yet", "give a version from 2 to 4"),
        ("reach", {"row": "[1,2]", "changed_in": 1}, 400, "the program was changed", "give a version from 2 to 4"),
        (
            "reach",
            {"row": "[2,3]", "changed_in": 4},
            400,
            "was neither inserted nor deleted in version 4",
            "in version 2",
        ),
        ("reach", {"row": "[8,9]", "changed_in": 4}, 400, "neither inserted nor deleted", "omit `changed_in`"),
        ("edge", {}, 400, "this is a base relation", "explain a view instead"),
        ("reach", {"fixes": 2}, 400, "`fixes` needs `row`", "as in `?row=[1,3]`"),
    ],
)
def test_what_is_wrong_is_told_with_its_place_and_a_cure(
    running: Running, view: str, asked: dict[str, Any], status: int, said: str, cure: str
) -> None:
    found, _, text = get(running, view, **asked)
    error = json.loads(text)["error"]
    assert (found, said in error["message"], cure in error["help"]) == (status, True, True), error
