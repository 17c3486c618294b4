"""What a token may not read it does not see: not in an answer, an error, an explanation, a what-if, a firing."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.service.bank import HIDDEN_NAMES, HIDDEN_VALUES, TOKENS, bearer, served
from tests.service.served_process import PATIENCE
from tests.service.serving import Running

PEOPLE = ("nothing", "reader", "noter", "blind")


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with served(tmp_path_factory.mktemp("bank")) as running:
        body = {"insert": {"transfer": [["mallory-secret", "alice-secret", 1]]}, "meta": {"why": "alice-secret"}}
        assert running.request("POST", "/transactions", body, bearer("everything"))[0] == 200
        yield running


def send(bank: Running, token: str, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
    """The status, and everything that came back, head and body."""
    connection = http.client.HTTPConnection("127.0.0.1", bank.port, timeout=PATIENCE)
    try:
        given = body if isinstance(body, str) or body is None else json.dumps(body)
        sent = {**bearer(token), **headers}
        if given is not None:
            sent.setdefault("content-type", "application/json")
        connection.request(method, path, given, sent)
        answer = connection.getresponse()
        if answer.getheader("content-type", "").startswith("text/event-stream"):
            content = b"".join(answer.readline() for _ in range(4))
        else:
            content = answer.read()
        head = [each for each in answer.getheaders() if each[0] != "transfer-encoding"]
        return answer.status, str(head) + content.decode()
    finally:
        connection.close()


ROW = quote(json.dumps(["alice-secret", "bob-secret"]))


def requests_about(name: str) -> Iterator[tuple[str, str, Any]]:
    """Everything that can be asked about a relation."""
    yield from (("GET", f"/views/{name}", None), ("GET", f"/views/{name}?limit=1", None))
    yield from (
        ("GET", f"/views/{name}?where={name}(X,Y)", None),
        ("GET", f"/views/{name}?where={name}(1", None),
        ("GET", f"/views/public_note?where={name}(X)", None),
        ("GET", f"/views/{name}/changes", None),
        ("GET", f"/views/{name}/changes?since=1", None),
        ("GET", f"/explanations/{name}", None),
        ("GET", f"/explanations/{name}?row={ROW}", None),
        ("GET", f"/explanations/{name}?row=[1]", None),
        ("POST", "/query", {"query": f"{name}(X, Y)"}),
        ("POST", "/query", {"query": f"public_note(I, T), {name}(T)"}),
        ("POST", "/query", {"query": f"public_note(I, T), !{name}(T, T)"}),
        ("POST", "/query", {"query": f"N = count : {{ {name}(_) }}"}),
        ("POST", "/subscriptions", {"view": name, "url": "https://example.org/", "secret": "X"}),
        ("POST", "/subscriptions", {"view": "public_note", "where": f"{name}(X)", "url": "https://example.org/"}),
    )
    for part in ("insert", "delete"):
        yield "POST", "/realizations", {part: {"public_note": [[1, "hello"]], name: [["alice-secret"]]}}
        for row in (["alice-secret", "DE-secret-9"], ["alice-secret"], ["alice-secret", "bob-secret", 770077], "x"):
            yield "POST", "/realizations", {part: {name: [row]}}
            yield "POST", "/transactions", {"expect": {part: {name: [row]}}}
    yield "POST", "/realizations", {"repair": name}
    for sign in ("", "+", "-"):
        yield "POST", "/realizations", {"insert": {"public_note": [[5, "x"]]}, "frozen": [sign + name]}
        yield "POST", "/realizations", {"insert": {"public_note": [[5, "x"]]}, "cost": {sign + name: 2}}
    for part in ("insert", "delete", "upsert", "replace"):
        for row in (["alice-secret", "DE-secret-9"], ["x"], [1, 2, 3], {"holder": 1}, "x"):
            yield "POST", "/transactions", {part: {name: [row]}}
            yield "POST", "/what-if", {part: {name: [row]}}


GENERAL: tuple[tuple[str, str, Any], ...] = (
    ("GET", "/program", None),
    ("GET", "/commits", None),
    ("GET", "/constraints", None),
    ("GET", "/rules", None),
    ("GET", "/subscriptions", None),
    ("GET", "/metrics", None),
    ("GET", "/docs", None),
    ("GET", "/openapi.json", None),
    ("GET", "/healthz", None),
    ("GET", "/readyz", None),
    ("GET", "/", None),
    ("GET", "/network", None),
    ("GET", "/commits/stream?since=0", None),
    ("GET", "/views/note_count", None),
    ("GET", "/views/public_note", None),
    ("GET", "/explanations/note_count", None),
    ("GET", "/explanations/note_count?row=[1]", None),
    ("GET", "/views/accoun", None),
    ("GET", "/views/public_notes", None),
    ("POST", "/query", {"query": "accont(X, Y)"}),
    ("POST", "/query", {"query": "public_note(X, Y, Z)"}),
    ("POST", "/query", {"query": "public_note(X, X)"}),
    ("POST", "/query", {"query": "public_note(X, Y), to_number(Y) > 1"}),
    ("POST", "/transactions", {"insert": {"public_note": [[7, "bob"]]}}),
    ("POST", "/transactions", {"insert": {"public_note": [["x", "bob"]]}}),
    ("POST", "/what-if", {"insert": {"public_note": [[8, "bob"]]}}),
    ("POST", "/transactions", {"insert": {"note_count": [[1]]}}),
    ("POST", "/transactions", "{"),
    ("POST", "/transactions", {"expect": {"insert": {"note_count": [[99]]}}}),
    ("POST", "/realizations", {"insert": {"public_note": [[5, "alice"]]}}),
    ("POST", "/realizations", {"delete": {"public_note": [[1, "hello"]]}}),
    ("POST", "/realizations", {"insert": {"note_count": [[3]]}}),
    ("POST", "/realizations", {"insert": {"noted_reach": [[1]]}}),
    ("POST", "/realizations", {"insert": {"noted": [["x"]]}}),
    ("POST", "/realizations", {"delete": {"noted": [["hello"]]}}),
    ("POST", "/realizations", {"repair": "*"}),
    ("POST", "/realizations", {}),
    ("POST", "/realizations", "{"),
    ("GET", "/explanations/note_count?row=[77]", None),
    ("GET", "/subscriptions/nosuch", None),
    ("DELETE", "/subscriptions/nosuch", None),
)


ORDINARY = ("holder of the token", "placeholder", "Placeholder", "bounds reached")
"""Words of the service's own that happen to contain a name."""


def _without_ordinary_words(text: str) -> str:
    for words in ORDINARY:
        text = text.replace(words, "")
    return text


def echoes(value: Any) -> str:
    return json.dumps(value) if value is not None else ""


@pytest.mark.parametrize("token", PEOPLE)
def test_no_name_and_no_value_that_may_not_be_read_is_in_any_answer(bank: Running, token: str) -> None:
    may_name = TOKENS[token].read | TOKENS[token].write
    about = [each for name in HIDDEN_NAMES if name not in may_name for each in requests_about(name)]
    for method, path, body in (*GENERAL, *about):
        status, found = send(bank, token, method, path, body)
        assert status < 500, (method, path, body, found)
        for word in HIDDEN_NAMES:
            assert word not in _without_ordinary_words(found), (word, method, path, body, found)
        for value in HIDDEN_VALUES:
            assert value not in found, (value, method, path, body, found)


@pytest.mark.parametrize("token", PEOPLE)
def test_what_is_hidden_and_what_is_not_there_get_the_same_answer(bank: Running, token: str) -> None:
    hidden = [name for name in ("reached", "tainted", "suspicious") if name not in TOKENS[token].write]
    for name in hidden:
        for method, path, body in requests_about(name):
            there = send(bank, token, method, path, body)
            text = None if body is None else json.loads(json.dumps(body).replace(name, "nosuch"))
            absent = send(bank, token, method, path.replace(name, "nosuch"), text)
            assert _without_ids(there[1]) == _without_ids(absent[1]), (method, path, body)
            assert there[0] == absent[0]


def _without_ids(text: str) -> str:
    return text[text.index("{") :] if "{" in text else ""


def test_a_token_that_writes_blindly_learns_nothing_of_what_is_there(bank: Running) -> None:
    known = {"insert": {"account": [["alice-secret", "DE-other"]]}}
    status, found = send(bank, "blind", "POST", "/transactions", known)
    assert (status, "DE-secret" in found, "key-violation" in found) == (409, False, True)
    assert '"violations":{}' in found
    assert '"kind":"ConstraintError"' in found
    # Whether a row was there shows neither in the changes nor in the version.
    versions = [bank.database.version]
    for row in (["alice-secret", "bob-secret", 770077], ["new", "newer", 1]):
        status, found = send(bank, "blind", "POST", "/transactions", {"insert": {"transfer": [row]}})
        assert (status, '"changes":{}' in found) == (200, True)
        versions.append(json.loads(_without_ids(found))["version"])
    assert versions == [versions[0], versions[0] + 1, bank.database.version]
    assert bank.database.version == versions[0] + 2
    rejected = {"insert": {"account": [["mallory-secret", "x"]]}}
    status, found = send(bank, "blind", "POST", "/transactions", rejected)
    assert (status, "launderer" in found, "constraint-violated" in found) == (409, False, True)
    status, found = send(bank, "blind", "POST", "/what-if", rejected)
    assert json.loads(_without_ids(found)) | {"version": 0} == {
        "version": 0, "changes": {}, "violations": {}, "firings": []
    }  # fmt: skip


def test_an_explanation_needs_everything_that_the_view_rests_on(bank: Running, tmp_path: Path) -> None:
    status, found = send(bank, "reader", "GET", "/explanations/note_count")
    assert status == 200
    assert "triggering" not in found
    status, found = send(bank, "reader", "GET", "/explanations/note_count?row=[9]")
    assert (status, '"why_not"' in found) == (200, True)
    assert send(bank, "nothing", "GET", "/explanations/note_count")[0] == 404


def test_notes_of_commits_are_for_administrators(bank: Running) -> None:
    path = "/explanations/reached?row=" + quote('["mallory-secret","alice-secret"]')
    status, found = send(bank, "everything", "GET", path)
    assert status == 200
    assert "mallory-secret" in found


def test_without_a_token_nothing_but_health_and_docs_is_answered(bank: Running) -> None:
    for method, path, body in (*GENERAL, *requests_about("account")):
        if path in ("/", "/healthz", "/readyz", "/docs", "/openapi.json"):
            continue
        status, answer, _ = bank.request(method, path, body if not isinstance(body, str) else {})
        assert (status, answer["error"]["code"]) == (401, "unauthorized"), (method, path)
