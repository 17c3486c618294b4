"""A key, a parameter or a relation that nobody knows is refused by its name, with its place and what could be meant."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.service.bank import bearer, write_tokens
from tests.service.serving import CLOSURE, Running
from upshot.cli.input import changes
from upshot.pipeline.sources.reading import envelopes
from upshot.service.access.scopes import Scopes
from upshot.service.access.sessions import Authenticator
from upshot.service.access.tokens import Tokens
from upshot.service.service import Service
from upshot.service.wire import bodies


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    database = upshot.connect()
    database.define(CLOSURE)
    with Running(database) as running:
        yield running


ROW = [["a", "b"]]


@pytest.mark.parametrize(
    ("path", "body", "said", "cure"),
    [
        ("/transactions", {"inser": {}}, "unknown key `inser` in the body", "did you mean `insert`?"),
        ("/transactions", {"expect": {"inset": {}}}, "unknown key `inset` in `expect`", "did you mean `insert`?"),
        ("/transactions", {"insert": {"edg": ROW}}, "`insert`: unknown relation `edg`", "did you mean `edge`?"),
        ("/transactions", {"insert": {"edge": [{"x": "a", "z": "b"}]}}, "unknown column `z`", "columns: edge(x"),
        ("/what-if", {"meta": {}}, "unknown key `meta` in the body", "the keys are insert, delete, upsert, replace"),
        ("/what-if", {"delete": {"edg": ROW}}, "`delete`: unknown relation `edg`", "did you mean `edge`?"),
        ("/realizations", {"frozn": []}, "unknown key `frozn` in the body", "did you mean `frozen`?"),
        ("/realizations", {"insert": {"clsure": ROW}}, "unknown relation `clsure`", "did you mean `closure`?"),
        ("/realizations", {"insert": {"closure": ROW}, "frozen": ["-edg"]}, "unknown relation `edg`", "mean `edge`?"),
        ("/realizations", {"insert": {"closure": ROW}, "bounds": {"second": 1}}, "unknown key `second` in `bounds`",
         "did you mean `seconds`?"),
        ("/query", {"quer": "x"}, "unknown key `quer` in the body", "did you mean `query`?"),
        ("/session", {"tokn": "x"}, "unknown key `tokn` in the body", "did you mean `token`?"),
        ("/subscriptions", {"view": "closure", "uurl": "x"}, "unknown key `uurl` in the body", "did you mean `url`?"),
        ("/subscriptions/1/resume", {"skp": True}, "unknown key `skp` in the body", "did you mean `skip`?"),
    ],
)  # fmt: skip
def test_a_key_of_a_body_is_named_with_its_place(
    service: Running, path: str, body: dict[str, Any], said: str, cure: str
) -> None:
    status, answer, _ = service.request("POST", path, body)
    assert status in (400, 404), answer
    assert said in answer["error"]["message"], answer
    assert cure in answer["error"]["help"], answer


@pytest.mark.parametrize(
    ("path", "said", "cure"),
    [
        ("/explanations/closure?rwo=[1]", "unknown parameter `rwo`", "did you mean `row`?"),
        ("/explanations/clsure", "unknown relation `clsure`", "did you mean `closure`?"),
        ("/views/edge?limt=3", "unknown parameter `limt`", "did you mean `limit`?"),
        ("/views/edge/changes?sinc=3", "unknown parameter `sinc`", "did you mean `since`?"),
        ("/commits?most=3", "unknown parameter `most`", "the parameters are limit"),
        ("/program?x=3", "unknown parameter `x`", "it takes no parameters"),
        ("/rules?x=3", "unknown parameter `x`", "the parameters are causes"),
    ],
)
def test_a_parameter_is_not_passed_over_in_silence(service: Running, path: str, said: str, cure: str) -> None:
    status, answer, _ = service.request("GET", path)
    assert (status in (400, 404), answer["error"]["message"]) == (True, said), answer
    assert cure in answer["error"]["help"], answer


def test_what_may_be_a_secret_in_the_wrong_place_is_not_repeated(service: Running) -> None:
    secret = "upshot_" + "s" * 43
    for method, path, body in (("POST", "/session", {secret: 1}), ("GET", f"/program?{secret}=1", None)):
        status, answer, _ = service.request(method, path, body)
        assert (status, secret in str(answer)) == (400, False)


def test_a_key_that_comes_twice_is_named(service: Running) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=60)
    connection.request("POST", "/what-if", '{"insert": {}, "insert": {}}', {"content-type": "application/json"})
    text = connection.getresponse().read().decode()
    connection.close()
    assert "duplicate key `insert` in an object" in text


class Key(str):
    """A key that notes how often one is compared with another."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Key.compared += 1
        return str.__eq__(self, other)


@pytest.mark.parametrize("reader", [bodies, changes, envelopes], ids=lambda each: each.__name__)
def test_a_key_that_comes_twice_is_found_in_one_pass(reader: Any) -> None:
    keys, Key.compared = [Key(number) for number in (*range(5_000), 4_999)], 0
    with pytest.raises(Exception, match="duplicate key `4999`"):
        reader._without_repetition([(key, 1) for key in keys])
    assert Key.compared < 5_000


def test_whoever_may_not_read_everything_is_offered_no_name(tmp_path: Path) -> None:
    tokens = write_tokens(tmp_path / "tokens.toml", {"low": Scopes("low", read=frozenset(["closure"]))})

    def prepare(running: Service) -> None:
        running.authenticator = Authenticator(running.settings, Tokens(tokens))

    database = upshot.connect()
    database.define(CLOSURE)
    with Running(database, prepare=prepare) as running:
        words = []
        for name in ("edge", "edg"):
            asked = running.request("GET", f"/explanations/{name}", headers=bearer("low"))[1]
            wished = running.request("POST", "/realizations", {"insert": {name: ROW}}, bearer("low"))[1]
            assert "edg" not in str(asked) + str(wished)
            words.append((asked, wished))
        assert words[0] == words[1]
