"""Malformed, oversized and hostile requests: a 4xx in the one shape, and the service goes on."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

import upshot
from tests.service.served_process import PATIENCE
from tests.service.serving import CLOSURE, Running
from upshot.cli import main
from upshot.core.errors import Error, UsageError
from upshot.service.program_file import serve_program

BODIES = [
    b"", b"{", b"[]", b"1", b"null", b'"x"', b"\xff\xfe", b"{}" * 2, b'{"insert": 1}', b'{"insert": {"edge": 1}}',
    b'{"insert": {"edge": [1]}}', b'{"insert": {"edge": [[1, 2]]}}', b'{"insert": {"edge": [["a"]]}}',
    b'{"insert": {"edge": [{"x": "a"}]}}', b'{"insert": {"edge": [{"x": "a", "y": "b", "z": 1}]}}',
    b'{"insert": {"edge": [["a", null]]}}', b'{"insert": {"edge": [["a", "\\ud800"]]}}',
    b'{"insert": {"closure": [["a", "b"]]}}', b'{"insert": {"__proto__": []}}', b'{"insert": {"": []}}',
    b'{"insert": {"edge": []}, "insert": {}}', b'{"insert": {"edge": [["a", NaN]]}}',
    b'{"insert": {"edge": [["a", 1e999]]}}', b'{"insert": {"edge": [["a", ' + b"9" * 5_000 + b"]]}}",
    b"[" * 20_000, b'{"a":' * 20_000, b'{"upsert": {"edge": [["a", "b"]]}}', b'{"meta": 1}', b'{"meta": {"upshot": 1}}',
    b'{"meta": {"x": "\\ud800"}}', b'{"meta": {"x": "' + b"y" * 20_000 + b'"}}', b'{"drop": {"edge": []}}',
    b'{"query": 1}', b'{"query": ""}', b'{"query": "edge("}', b'{"query": "edge(X, Y)", "parameters": []}',
    b'{"query": "edge(X, Y)", "parameters": {"x": 1}}', b'{"query": "edge($x, Y)", "parameters": {"x": [1]}}',
    b'{"query": "edge($x, Y)", "parameters": {"x": 1}}', b'{"query": "' + b"(" * 10_000 + b'"}',
    b'{"query": "' + b"edge(X, Y), " * 1_000 + b'edge(X, Y)"}', b'{"query": "edge(X, \\u0000)"}',
    b'{"query": "X = 1 / 0"}', b'{"query": "X = 9223372036854775807 + 1"}',
    b'{"query": "edge(X, Y), Z = to_number(X)"}',
    b'{"query": ".decl x(y: number)"}', b'{"query": "edge(X, Y). edge(\\"a\\", \\"b\\")."}', b'{"token": 1}',
    b'{"view": "edge", "url": "file:///etc/passwd", "secret": "X"}', b'{"expect": 1}', b'{"expect": {"upsert": {}}}',
    b'{"expect": {"insert": {"edge": 1}}}', b'{"expect": {"insert": {"nosuch": []}}}', b'{"repair": 1}',
    b'{"expect": {"insert": {"closure": [["z", "z"]]}}}', b'{"repair": "edge"}', b'{"repair": "nosuch"}',
    b'{"limit": 0}', b'{"limit": true}', b'{"limit": 1e9}', b'{"limit": "1"}', b'{"frozen": "edge"}',
    b'{"frozen": [1]}',
    b'{"frozen": ["++edge"]}', b'{"frozen": ["+"]}', b'{"frozen": ["closure"]}', b'{"cost": []}',
    b'{"cost": {"edge": -1}}', b'{"cost": {"edge": "1"}}', b'{"cost": {"edge": true}}', b'{"cost": {"closure": 1}}',
    b'{"cost": {"edge": ' + b"9" * 4_000 + b"}}", b'{"cost": {"edge": 1e400}}', b'{"bounds": []}',
    b'{"bounds": {"x": 1}}', b'{"bounds": {"seconds": ' + b"9" * 4_000 + b"}}",
    b'{"bounds": {"seconds": 0}}', b'{"bounds": {"seconds": -1e-400}}', b'{"bounds": {"size": 0}}',
    b'{"bounds": {"rounds": 1000001}}', b'{"bounds": {"new_constants": -1}}', b'{"side_effect_free_first": 1}',
    b'{"insert": {"closure": [["a", "b"]]}, "delete": {"closure": [["a", "b"]]}}',
    b'{"delete": {"closure": [' + b",".join(b'["a", "b%d"]' % each for each in range(1_001)) + b"]}}",
]  # fmt: skip

PATHS = [
    "/views/", "/views//", "/views/..%2f..%2fetc%2fpasswd", "/views/%00", "/views/" + "x" * 5_000, "/views/edge;drop",
    "/views/edge?limit=0", "/views/edge?limit=-1", "/views/edge?limit=99999999999999999999", "/views/edge?after=%00",
    "/views/edge?where=", "/views/edge?where=edge(", "/views/edge?where=closure(X,Y)", "/views/edge?where=edge(X)",
    "/views/edge?where=!edge(X,Y)", "/views/edge?where=edge(1,Y)", "/views/edge?where=" + quote("edge(X,Y), edge(Y,Z)"),
    "/views/edge?where=" + quote('edge("' + "a" * 5_000 + '",Y)'), "/views/edge/changes?since=-1",
    "/views/edge/changes?since=99999999999999999999999", "/views/edge/changes?every=0", "/explanations/",
    "/explanations/edge", "/explanations/closure?row=", "/explanations/closure?row=[", "/explanations/closure?row={}",
    "/explanations/closure?row=[1]", '/explanations/closure?row=["a",1]', "/commits?limit=x", "/commits?limit=0",
    "/subscriptions/%2e%2e", "/page/..%2fapp.py", "/page/.hidden", "/nosuch", "//evil.example/", "/openapi.json/x",
]  # fmt: skip


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    database = upshot.connect()
    database.define(CLOSURE)
    with Running(database) as running:
        running.request("POST", "/transactions", {"insert": {"edge": [["a", "b"]]}})
        yield running


def talk(port: int, raw: bytes, *, timeout: float = PATIENCE) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as client:
        client.sendall(raw)
        found = b""
        while b"\r\n\r\n" not in found or not _is_whole(found):
            part = client.recv(65_536)
            if not part:
                break
            found += part
        return found


def _is_whole(answer: bytes) -> bool:
    head, _, body = answer.partition(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return len(body) >= int(line.partition(b":")[2])
    return b"chunked" not in head.lower() or body.endswith(b"0\r\n\r\n")


def post(path: str, body: bytes, kind: str = "application/json") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def refused(answer: bytes) -> str:
    """The code of an error in the one shape, which is the sender's fault."""
    head, _, body = answer.partition(b"\r\n\r\n")
    status = int(head.split()[1])
    assert 400 <= status < 500, answer[:500]
    error = json.loads(body)["error"]
    assert set(error) <= {"code", "kind", "message", "help", "retryable", "details"}, error
    assert {"code", "message", "help", "retryable"} <= set(error), error
    assert error["message"] == error["message"].strip() != "", error
    return str(error["code"])


@pytest.mark.parametrize("path", ["/transactions", "/what-if", "/realizations", "/query", "/session", "/subscriptions"])
def test_a_bad_body_is_refused_in_the_one_shape(service: Running, path: str) -> None:
    for body in BODIES:
        answer = talk(service.port, post(path, body))
        if b" 200 " in answer[:15] or b" 201 " in answer[:15]:
            assert path in ("/transactions", "/what-if", "/realizations", "/query", "/session"), (path, body, answer)
            continue
        refused(answer)
    assert service.request("GET", "/views/edge")[1]["rows"] == [["a", "b"]]


@pytest.mark.parametrize("notes", ['{"x": "\\ud800"}', '{"\\udfff": 1}', '{"x": [["\\ud800"]]}'])
def test_notes_that_no_store_can_hold_are_refused(tmp_path: Path, notes: str) -> None:
    database = upshot.connect(tmp_path / "store")
    database.define(CLOSURE)
    with Running(database) as running:
        body = f'{{"insert": {{"edge": [["a", "b"]]}}, "meta": {notes}}}'.encode()
        assert refused(talk(running.port, post("/transactions", body))) == "bad-request"
        assert running.request("GET", "/views/edge")[1]["rows"] == []


@pytest.mark.parametrize("path", PATHS)
def test_a_bad_address_is_refused_in_the_one_shape(service: Running, path: str) -> None:
    answer = talk(service.port, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n".encode())
    refused(answer)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW", "HEAD"])
def test_a_method_that_is_not_taken_is_refused(service: Running, method: str) -> None:
    answer = talk(
        service.port, f"{method} /transactions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    )
    assert answer.split()[1] in (b"400", b"405"), answer


def test_a_body_of_another_kind_is_refused(service: Running) -> None:
    good = b'{"insert": {"edge": [["x", "y"]]}}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "application/jsonx"):
        assert refused(talk(service.port, post("/transactions", good, kind))) == "not-json"


def test_lengths_that_lie_are_refused(service: Running) -> None:
    for length in ("-1", "x", "99999999999999999999", "1e3"):
        head = "POST /transactions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        answer = talk(service.port, f"{head}Content-Length: {length}\r\n\r\n".encode() + b"{}")
        assert answer.split()[1][:1] == b"4", answer


def test_noise_on_the_wire_does_not_end_the_service(service: Running) -> None:
    made = random.Random(5)
    for _ in range(50):
        noise = bytes(made.randrange(256) for _ in range(made.randrange(1, 400)))
        with socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE) as client:
            client.sendall(noise + b"\r\n\r\n")
    big = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"X-Pad: " + b"y" * 200_000 + b"\r\n\r\n"
    with socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE) as client:
        client.sendall(big)
        assert client.recv(100).split()[1][:1] in (b"2", b"4")
    assert service.request("GET", "/healthz")[0] == 200


def test_a_client_that_leaves_early_loses_nothing_for_others(service: Running) -> None:
    for number in range(20):
        with socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE) as client:
            client.sendall(post("/transactions", json.dumps({"insert": {"edge": [["gone", str(number)]]}}).encode()))
    assert service.request("POST", "/transactions", {"delete": {"edge": [["none", "none"]]}})[0] == 200
    rows = {f"{row[1]}" for row in service.request("GET", "/views/edge")[1]["rows"] if row[0] == "gone"}
    assert rows <= {str(number) for number in range(20)}
    service.request("POST", "/transactions", {"replace": {"edge": [["a", "b"]]}})


def test_errors_do_not_repeat_secrets(service: Running) -> None:
    answer = talk(service.port, b"GET /views/edge?limit=hunter2 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert b"hunter2" not in answer


# ---- the files of a served program ----------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    (tmp_path / "secret.facts").write_text("top\tsecret\n")
    (tmp_path / "files" / "edge.facts").write_text("a\tb\n")
    (tmp_path / "files" / "link.facts").symlink_to(tmp_path / "secret.facts")
    (tmp_path / "files" / "up").symlink_to(tmp_path)
    return tmp_path / "files"


def served_rows(directive: str, files: Path | None) -> list[tuple[object, ...]]:
    with upshot.connect() as database:
        try:
            serve_program(database, CLOSURE + directive, "p.dl", files, lambda _: None, lambda: None)
        except Error:
            assert database.version == 0, "nothing was touched"
            raise
        return database.rows("edge").sorted()


def test_input_reads_files_of_the_folder(folder: Path) -> None:
    assert served_rows(".input edge", folder) == [("a", "b")]
    assert served_rows('.input edge(filename="../files/edge.facts")', folder) == [("a", "b")]


@pytest.mark.parametrize("name", ["../secret.facts", "link.facts", "up/secret.facts", "/etc/hostname", "."])
def test_input_reads_nothing_outside_of_the_folder(folder: Path, name: str) -> None:
    with pytest.raises(UsageError) as found:
        served_rows(f'.input edge(filename="{name}")', folder)
    assert found.value.code == "files-refused"


def test_input_is_refused_without_a_folder_and_from_standard_input(folder: Path) -> None:
    for directive, files in ((".input edge", None), (".input edge(IO=stdin)", folder)):
        with pytest.raises(UsageError) as found:
            served_rows(directive, files)
        assert found.value.code == "files-refused"


def test_output_touches_nothing(folder: Path) -> None:
    before = sorted(path.name for path in folder.iterdir())
    assert served_rows('.output closure(filename="../stolen.csv")', folder) == []
    assert sorted(path.name for path in folder.iterdir()) == before
    assert not (folder.parent / "stolen.csv").exists()


def test_the_command_line_refuses_what_is_not_safe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "p.dl"
    program.write_text(CLOSURE)
    assert main(["serve", str(program), "--host", "0.0.0.0", "--port", "0"]) == 2
    assert "unsafe-address" in capsys.readouterr().err
    assert main(["serve", str(program), "--tls-cert", str(program), "--port", "0"]) == 2
    assert main(["serve", str(program), "--tls-cert", str(program), "--tls-key", str(program), "--port", "0"]) == 2
    assert "bad-certificate" in capsys.readouterr().err
    assert main(["serve", str(program), "--tokens", str(tmp_path / "none"), "--port", "0"]) == 2
    assert "bad-tokens" in capsys.readouterr().err
