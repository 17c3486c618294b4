"""Tokens, the sessions they open, and who may come in at all."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.service.bank import TOKENS, bearer, served, write_tokens
from tests.service.serving import Running
from upshot.cli import main
from upshot.core.errors import UsageError
from upshot.service.access import tokens as tokens_module
from upshot.service.access.hosts import refuse_unsafe
from upshot.service.access.scopes import Scopes
from upshot.service.access.sessions import LIFETIME, Sessions
from upshot.service.access.tokens import Tokens, add_token, hash_of, read_tokens
from upshot.service.settings import Settings


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with served(tmp_path_factory.mktemp("bank")) as running:
        yield running


def test_a_token_is_shown_once_and_kept_as_a_hash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tokens.toml"
    assert main(["token", "dashboard", "--tokens", str(file), "--read", "closure,edge", "--write", "edge"]) == 0
    token = capsys.readouterr().out.strip()
    assert token.startswith("upshot_")
    assert len(token) > 40
    assert token not in file.read_text()
    assert hash_of(token) in file.read_text()
    assert oct(file.stat().st_mode & 0o777) == "0o600"
    expected = Scopes("dashboard", frozenset(("closure", "edge")), frozenset(("edge",)), subscribe=True)
    assert Tokens(file).find(token) == expected
    assert Tokens(file).find(token + "x") is None
    assert main(["token", "dashboard", "--tokens", str(file)]) == 2
    assert main(["token", "second", "--tokens", str(file), "--no-subscribe", "--admin"]) == 0
    assert set(read_tokens(file)) == {"dashboard", "second"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[", "is not TOML"),
        ("x = 1", "may have only tables"),
        ("[token.a]\n", "has no `hash"),
        ('[token.a]\nhash = "md5:1"', "has no `hash"),
        (f'[token.a]\nhash = "{hash_of("x")}"\nread = "all"', "needs a list of names"),
        (f'[token.a]\nhash = "{hash_of("x")}"\nadmin = 1', "needs true or false"),
        (f'[token.a]\nhash = "{hash_of("x")}"\nsudo = true', "unknown key `sudo`"),
        (f'[token."a b"]\nhash = "{hash_of("x")}"', "an invalid name"),
        (f'[token.a]\nhash = "{hash_of("x")}"\n[token.b]\nhash = "{hash_of("x")}"', "one token under two names"),
    ],
)
def test_a_file_of_tokens_that_is_wrong_says_what(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "tokens.toml").write_text(text)
    with pytest.raises(UsageError, match=words) as found:
        Tokens(tmp_path / "tokens.toml")
    assert found.value.code == "bad-tokens"


def leave_alone(file: Path) -> None:
    """As though nobody had written to it for a while."""
    written = time.time_ns() - 10 * 10**9
    os.utime(file, ns=(written, written))


def test_a_token_that_is_taken_out_of_the_file_is_good_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens_module, "_CHECK_EVERY", 0.0)
    file = write_tokens(tmp_path / "tokens.toml")
    known = Tokens(file)
    assert known.find("secret-of-reader") == TOKENS["reader"]
    write_tokens(file, {"nothing": TOKENS["nothing"]})
    leave_alone(file)
    assert known.find("secret-of-reader") is None
    assert known.named("nothing") == TOKENS["nothing"]
    file.write_text("broken [")
    assert known.named("nothing") == TOKENS["nothing"]


def test_a_token_is_good_as_soon_as_it_is_made(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "tokens.toml"

    def made(name: str) -> str:
        return add_token(file, name, read=["closure"], write=[], subscribe=False, admin=False)

    made("first")
    known = Tokens(file)
    assert known.find("upshot_nobody") is None
    for name in ("second", "third"):
        found = known.find(made(name))
        assert found is not None
        assert found.name == name
    file.write_text("[token")
    leave_alone(file)
    for _ in range(5):
        assert known.find("upshot_nobody") is None
    assert len(caplog.records) == 1


def test_a_file_that_is_being_written_takes_nobody_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever part of it is there when it is read; and a change that leaves size and time as they were is seen."""
    file = write_tokens(tmp_path / "tokens.toml")
    whole = file.read_text()
    leave_alone(file)
    known = Tokens(file)
    for end in range(0, len(whole), 7):
        file.write_text(whole[:end])
        assert known.find("upshot_nobody") is None
        assert {name: known.named(name) for name in TOKENS} == TOKENS
    assert caplog.records == []
    now = time.time_ns()
    for secret in ("secret-of-reader", "secret-of-another"):
        file.write_text(whole.replace(hash_of("secret-of-reader"), hash_of(secret)))
        os.utime(file, ns=(now, now))
        assert known.find(secret) == TOKENS["reader"]
    leave_alone(file)
    assert known.find("secret-of-reader") is None


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Bearer wrong", "Basic c2VjcmV0", "bearer secret-of-", "Bearer " + "x" * 5_000],
)
def test_all_who_are_not_known_get_one_answer(bank: Running, header: str) -> None:
    status, answer, head = bank.request("GET", "/views/public_note", headers={"authorization": header})
    assert (status, answer["error"]["code"], answer["error"]["message"]) == (401, "unauthorized", "a token is required")
    assert head["www-authenticate"] == "Bearer"


def test_scopes_hold_for_reading_writing_and_following(bank: Running) -> None:
    note = {"insert": {"public_note": [[5, "x"]]}}
    assert bank.request("POST", "/transactions", note, bearer("reader"))[0] == 403
    assert bank.request("POST", "/what-if", note, bearer("reader"))[0] == 403
    status, answer, _ = bank.request("POST", "/transactions", note, bearer("noter"))
    assert (status, sorted(answer["changes"])) == (200, ["note_count", "noted", "public_note"])
    assert bank.request("GET", "/views/public_note/changes", headers=bearer("nothing"))[0] == 403
    assert bank.request("GET", "/views/transfer", headers=bearer("reader"))[0] == 404


# ---- sessions -------------------------------------------------------------------------------------


def sign_in(bank: Running, token: str, **headers: str) -> tuple[int, Any, str]:
    status, answer, head = bank.request("POST", "/session", {"token": f"secret-of-{token}"}, headers)
    return status, answer, head.get("set-cookie", "")


def test_a_session_stands_for_a_token_by_a_cookie_that_scripts_cannot_read(bank: Running) -> None:
    status, answer, cookie = sign_in(bank, "noter")
    assert (status, answer["token"]) == (200, "noter")
    assert {"HttpOnly", "Path=/", "SameSite=strict"} <= set(cookie.split("; "))
    assert "secret-of" not in cookie
    held = {"cookie": cookie.partition(";")[0]}
    assert bank.request("GET", "/views/public_note", headers=held)[0] == 200
    assert bank.request("GET", "/views/transfer", headers=held)[0] == 404
    own = {**held, "origin": f"http://127.0.0.1:{bank.port}"}
    assert bank.request("POST", "/transactions", {"insert": {"public_note": [[9, "y"]]}}, own)[0] == 200
    assert bank.request("DELETE", "/session", headers=own)[0] == 204
    assert bank.request("GET", "/views/public_note", headers=held)[0] == 401


@pytest.mark.parametrize(
    "origin",
    [{"origin": "https://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}, {"origin": "http://["}],
)
def test_a_page_of_another_origin_cannot_use_the_cookie(bank: Running, origin: dict[str, str]) -> None:
    held = {"cookie": sign_in(bank, "noter")[2].partition(";")[0], **origin}
    status, answer, _ = bank.request("POST", "/transactions", {"insert": {"public_note": [[9, "y"]]}}, held)
    assert (status, answer["error"]["code"]) == (403, "cross-origin")
    assert bank.request("DELETE", "/session", headers=held)[0] == 403
    assert sign_in(bank, "noter", **origin)[0] == 403


def test_a_wrong_token_opens_no_session(bank: Running) -> None:
    status, answer, cookie = sign_in(bank, "nobody")
    assert (status, answer["error"]["code"], cookie) == (401, "unauthorized", "")
    assert bank.request("GET", "/views/public_note", headers={"cookie": "upshot-session=made-up"})[0] == 401


def test_a_token_that_is_replaced_takes_its_sessions_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens_module, "_CHECK_EVERY", 0.0)
    with served(tmp_path) as bank:
        held = {"cookie": sign_in(bank, "noter")[2].partition(";")[0]}
        assert bank.request("GET", "/views/public_note", headers=held)[0] == 200
        file = tmp_path / "tokens.toml"
        file.write_text(file.read_text().replace(hash_of("secret-of-noter"), hash_of("another secret")))
        leave_alone(file)
        assert bank.request("GET", "/views/public_note", headers=held)[0] == 401
        new = {"authorization": "Bearer another secret"}
        assert bank.request("GET", "/views/public_note", headers={"authorization": "Bearer secret-of-noter"})[0] == 401
        assert bank.request("GET", "/views/public_note", headers=new)[0] == 200


def test_a_session_ends_by_itself() -> None:
    now = 0.0
    sessions = Sessions(lambda: now)
    secret = sessions.start("reader")
    assert sessions.owner(secret) == "reader"
    now = LIFETIME + 1
    assert sessions.owner(secret) is None


# ---- who may come in at all -----------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.org"])
def test_an_address_beyond_this_machine_needs_tokens_and_tls(host: str) -> None:
    for tokens, tls in ((False, False), (True, False), (False, True)):
        settings = Settings(host, tls_certificate=Path("c") if tls else None, tls_key=Path("k") if tls else None)
        with pytest.raises(UsageError) as found:
            refuse_unsafe(settings, has_tokens=tokens)
        assert found.value.code == "unsafe-address"
    refuse_unsafe(Settings(host, tls_certificate=Path("c"), tls_key=Path("k")), has_tokens=True)
    refuse_unsafe(Settings(host, insecure=True), has_tokens=False)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_needs_nothing(host: str) -> None:
    refuse_unsafe(Settings(host), has_tokens=False)


def test_a_server_on_loopback_answers_to_its_own_names_only(bank: Running) -> None:
    for host in ("localhost", f"127.0.0.1:{bank.port}", "[::1]:80", "LOCALHOST:1"):
        assert bank.request("GET", "/healthz", headers={"host": host})[0] == 200
    for host in ("evil.example", f"evil.example:{bank.port}", "127.0.0.1.evil.example", ""):
        status, answer, _ = bank.request("GET", "/healthz", headers={"host": host})
        assert (status, answer["error"]["code"]) == (421, "wrong-host")


def test_a_server_without_tokens_still_refuses_pages_of_other_origins() -> None:
    database = upshot.connect()
    database.define(".decl edge(x: number)")
    with Running(database) as running:
        body = {"insert": {"edge": [[1]]}}
        assert running.request("POST", "/transactions", body, {"origin": "http://evil.example"})[0] == 403
        plain = {"content-type": "text/plain"}
        assert running.request("POST", "/transactions", body, plain)[0] == 415
        assert running.request("POST", "/transactions", body)[0] == 200


def test_a_token_in_the_address_is_no_token(bank: Running) -> None:
    assert bank.request("GET", "/views/public_note?token=secret-of-everything")[0] == 401


def test_names_of_tokens_are_plain(tmp_path: Path) -> None:
    for name in ("", "a b", "x" * 65, "1a", "a.b", "ä"):
        with pytest.raises(UsageError):
            add_token(tmp_path / "t", name, read=[], write=[], subscribe=True, admin=False)
