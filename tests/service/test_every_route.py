"""Scopes against every route there is: routes are taken from the application, so that a new one is covered at once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.service.bank import HIDDEN_NAMES, HIDDEN_VALUES, served
from tests.service.serving import Running
from tests.service.test_scopes import PEOPLE, _without_ids, _without_ordinary_words, send
from upshot.service.app import WITH_TOKEN, WITHOUT_TOKEN
from upshot.service.feed import commits

OPEN = {"/", "/page/{name}", "/session", "/healthz", "/readyz", "/docs", "/openapi.json"}
"""What is answered to whoever asks; every other route needs to know who it is."""
PARAMETERS = (
    "",
    "?where={0}(X,Y)",
    "?row=%5B%22alice-secret%22,%22bob-secret%22%5D",
    "?since=0",
    "?limit=1&after=x",
    "?format=text",
)
FORMS = ("*/*", "application/json", "application/x-ndjson", "text/event-stream", "application/vnd.apache.arrow.stream")


def routes(routers: tuple[Any, ...] = (*WITH_TOKEN, *WITHOUT_TOKEN)) -> list[tuple[str, str]]:
    """Methods and paths of all routes, those that the documentation does not list too."""
    found = [(method, route.path) for router in routers for route in router.routes for method in route.methods]
    return sorted({(method, path) for method, path in found if method != "HEAD"})


def bodies(name: str) -> list[Any]:
    """Bodies that name a relation wherever a route could take one."""
    row = ["alice-secret", "bob-secret"]
    parts: list[Any] = [{part: {name: [row]}} for part in ("insert", "delete", "upsert", "replace")]
    parts += [{"expect": {"insert": {name: [row]}}}, {"insert": {"public_note": [[5, "x"]]}, "frozen": [name]}]
    parts += [{"query": f"{name}(X, Y)"}, {"view": name, "url": "https://example.org/"}, {"repair": name}]
    return [{}, [], "{", *parts]


def requests(name: str) -> Iterator[tuple[str, str, Any, str]]:
    """Every route with this name in its path, its parameters and its body, in every form."""
    for method, path in routes():
        filled = re.sub(r"\{[^}]*\}", name, path)
        if method == "GET":
            yield from ((method, filled + each.format(name), None, "*/*") for each in PARAMETERS)
            yield from ((method, filled, None, form) for form in FORMS)
        else:
            for body in bodies(name):
                yield method, filled, body, "*/*"


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with pytest.MonkeyPatch.context() as patch, served(tmp_path_factory.mktemp("bank")) as running:
        patch.setattr(commits, "QUIET", 0.05)
        yield running


def test_every_route_but_those_for_anybody_is_refused_without_a_token(bank: Running) -> None:
    known = [(method, path) for method, path in routes() if path not in OPEN]
    assert len(known) > 15
    for method, path in known:
        filled = re.sub(r"\{[^}]*\}", "account", path)
        for body in [None] if method == "GET" else [None, {}, {"insert": {"account": [["x", "y"]]}}]:
            status, answer, _ = bank.request(method, filled, body)
            assert (status, answer["error"]["code"]) == (401, "unauthorized"), (method, path)


@pytest.mark.parametrize("token", PEOPLE)
def test_no_route_names_what_a_token_may_not_read_nor_tells_it_from_what_is_not_there(
    bank: Running, token: str
) -> None:
    for (method, path, body, form), (_, other_path, other_body, _) in zip(
        requests("tainted"), requests("nosuch"), strict=True
    ):
        status, found = send(bank, token, method, path, body, accept=form)
        assert status < 500, (method, path, body, found)
        for word in (*HIDDEN_NAMES, *HIDDEN_VALUES):
            assert word not in _without_ordinary_words(found), (word, method, path, body, form, found)
        if (path, body) != (other_path, other_body):
            absent = send(bank, token, method, other_path, other_body, accept=form)
            assert (status, _steady(found)) == (absent[0], _steady(absent[1])), (method, path, body, form)


def _steady(text: str) -> str:
    """What an answer tells, without what is of this request or this moment."""
    body = _without_ids(text)
    try:
        found = json.loads(body)
    except ValueError:
        return ""
    return json.dumps({key: value for key, value in found.items() if key not in ("commits", "page")}, sort_keys=True)


def test_a_path_that_hides_another_one_is_no_way_around_a_scope(bank: Running) -> None:
    for path in ("/views/public_note/../account", "/views/%61ccount", "/views/account%2Fchanges", "//views/account"):
        for spelled in (path, path.replace("account", quote("account ", safe=""))):
            status, found = send(bank, "reader", "GET", spelled)
            assert status in (400, 404, 405), (spelled, found)
            assert not [value for value in HIDDEN_VALUES if value in found]
