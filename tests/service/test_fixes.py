"""`GET /explanations/{view}` about a row that is not there: with what would bring it about."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import upshot
from tests.service.bank import bearer, filled, write_tokens
from tests.service.serving import Running
from tests.service.test_explanations import get, told
from tests.service.test_realizations import ACCESS, SOME, TEAMS, serving
from upshot.service.access.scopes import Scopes
from upshot.service.access.tokens import Tokens
from upshot.service.routes import explanations as routes_explanations
from upshot.service.service import Service

EVE = '["eve","deploy"]'


@pytest.fixture
def access() -> Iterator[Running]:
    with serving(ACCESS, **TEAMS) as running:
        yield running


def fixes(answer: dict[str, Any]) -> dict[str, Any]:
    part: dict[str, Any] = answer["why_not"]["parts"][-1]
    assert part["kind"] == "fixes"
    return part


def test_an_answer_has_the_realizations_that_would_bring_the_row_about(access: Running) -> None:
    part = fixes(told(access, "access", row=EVE))
    body = {"insert": {"access": [["eve", "deploy"]]}, "limit": 3}
    _, found, _ = access.request("POST", "/realizations", body)
    plain = [{key: value for key, value in each.items() if key not in ("kind", "statement", "note")}
             for each in part["parts"]]  # fmt: skip
    assert plain == found["realizations"]
    assert (part["status"], part["reason"], part["request"]) == (found["status"], found["reason"], found["request"])
    assert (part["status"], part["reason"]) == ("all", "these are all 3")
    assert part["parts"][0]["statement"] == '+member("eve", "ops")'


def test_one_of_them_is_committed_with_its_request_as_what_is_expected(access: Running) -> None:
    part = fixes(told(access, "access", row=EVE, fixes=1))
    (way,) = part["parts"]
    body = {"insert": way["insert"], "delete": way["delete"], "expect": part["request"]}
    assert access.request("POST", "/transactions", body)[0] == 200
    assert "derivation" in told(access, "access", row=EVE)


def test_the_same_as_text_and_as_a_picture_and_not_at_all(access: Running) -> None:
    text = get(access, "access", row=EVE, format="text", fixes=1)[2]
    assert "└─ becomes true with" in text
    assert '└─ +member("eve", "ops")' in text
    picture = get(access, "access", row=EVE, format="svg")[2]
    assert picture.startswith("<svg")
    assert "+member(" in picture
    for form in ("text", "json", "svg"):
        assert "becomes true" not in get(access, "access", row=EVE, format=form, fixes=0)[2]


def test_a_row_may_be_an_object_of_values_by_column(access: Running) -> None:
    asked = '{"right":"deploy","person":"eve"}'
    assert told(access, "access", row=asked, fixes=0) == told(access, "access", row=EVE, fixes=0)
    status, _, text = get(access, "access", row='{"person":"eve"}')
    assert (status, "column `right` is missing" in text) == (400, True)


def test_what_nobody_can_ask_for_says_so(access: Running) -> None:
    part = fixes(told(access, "unknown", row='["x"]'))
    assert (part["statement"], "parts" in part) == ("would be rejected", False)
    access.database.define('.decl low(p: symbol) .rule r(P) when low(P), !team(P) do insert suspended(P, "x").')
    assert "the condition of a rule has no rows to insert" in fixes(told(access, "r", row='["x"]'))["note"]
    access.database.define(".rule e(P) on insert low(P) do insert suspended(P, P).")
    status, _, text = get(access, "e", row='["x"]')
    assert (status, json.loads(text)["error"]["code"]) == (400, "no-condition")


def test_the_search_is_bounded_and_says_so() -> None:
    program = """
    .decl e(x: number, y: number) .decl p(x: number, y: number)
    p(X, Y) :- e(X, Y). p(X, Y) :- p(X, Z), p(Z, Y).
    .deny none(X) :- p(X, 99). .decl q(x: number) q(X) :- p(X, Y), p(Y, 99).
    """
    with serving(program, e=[(i, i + 1) for i in range(20)]) as running:
        part = fixes(told(running, "q", row="[1]", seconds=0.2))
        assert part["status"] in ("bounds reached", "none exists")
        assert "parts" not in part
    with serving(ACCESS, **TEAMS) as running:
        for wrong in ({"fixes": -1}, {"fixes": 101}, {"seconds": 0}, {"seconds": "x"}):
            assert get(running, "access", row=EVE, **wrong)[0] == 400


def test_a_row_that_comes_meanwhile_is_derived(access: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = routes_explanations._derivations

    def meanwhile(*asked: Any) -> Any:
        found = looked(*asked)
        if not found.trees:
            with access.database.transaction() as tx:
                tx.insert("member", [("eve", "ops")])
        return found

    monkeypatch.setattr(routes_explanations, "_derivations", meanwhile)
    answer = told(access, "access", row=EVE)
    assert (answer["version"], answer["derivation"]["statement"]) == (3, 'access("eve", "deploy")')


# ---- who may see them -----------------------------------------------------------------------------

ROW = '["bob-secret","zoe"]'


@pytest.fixture(scope="module")
def scoped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    tokens = {name: Scopes(name, read) for name, read in SOME.items()}
    file = write_tokens(tmp_path_factory.mktemp("tokens") / "tokens.toml", tokens)

    def prepare(service: Service) -> None:
        service.authenticator.tokens = Tokens(file)

    with Running(filled(), prepare=prepare) as running:
        yield running


@pytest.mark.parametrize("token", ["above", "without_rule", "without_key"])
def test_who_may_not_ask_for_realizations_is_told_that_none_were_looked_for(scoped: Running, token: str) -> None:
    status, _, text = get(scoped, "reached", bearer(token), row=ROW)
    assert status == 200, text
    part = json.loads(text)["why_not"]["parts"][-1]
    assert part["note"] == "not searched: they would disclose data that this token may not read"
    assert part.keys() == {"kind", "statement", "note"}
    for asked in (ROW, '["alice-secret","bob-secret"]', '["nobody","nobody"]'):
        status, _, text = get(scoped, "reached", bearer(token), row=asked, fixes=1)
        assert (status, json.loads(text)["error"]["message"]) == (
            403, "the realizations would disclose data that this token may not read",
        )  # fmt: skip
    assert get(scoped, "reached", bearer(token), row=ROW, fixes=0)[0] == 200


@pytest.mark.parametrize("form", ["json", "text", "svg"])
def test_effects_on_what_may_not_be_read_are_not_shown_in_any_form(scoped: Running, form: str) -> None:
    status, _, text = get(scoped, "reached", bearer("with_constraint"), row=ROW, fixes=3, format=form)
    assert status == 200, text
    assert "transfer(" in text
    assert "suspicious" not in text


def test_a_side_effect_that_may_not_be_read_is_not_named() -> None:
    database = upshot.connect()
    database.define(".decl b(x: number) .decl v(x: number) v(X) :- b(X). .decl hidden(x: number) hidden(X) :- b(X).")

    def prepare(service: Service) -> None:
        service.authenticator.scopes = lambda request: Scopes("low", read=frozenset({"b", "v"}))  # type: ignore[method-assign]

    with Running(database, prepare=prepare) as running:
        for form in ("json", "text", "svg"):
            status, _, text = get(running, "v", row="[1]", format=form)
            assert (status, "+b(1)" in text, "hidden" in text) == (200, True, False), text
        assert fixes(told(running, "v", row="[1]"))["parts"][0]["side_effects"] == 0


def test_an_explanation_beyond_its_bounds_says_what_to_do_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes_explanations, "_WHY_BOUND", 5)
    program = ".decl e(x: number, y: number) .decl r(x: number) r(0). r(Y) :- r(X), e(X, Y)."
    with serving(program, e=[(i, i + 1) for i in range(30)]) as running:
        status, _, text = get(running, "r", row="[30]")
        error = json.loads(text)["error"]
        assert (status, error["code"]) == (422, "explanation-bounds")
        assert error["help"] == "choose a row that depends on fewer rows"
