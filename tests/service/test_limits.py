"""Bounds on what one request may send, receive and take."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path

import pytest

import upshot
from tests.service.served_process import PATIENCE
from tests.service.serving import CLOSURE, Running
from upshot.service.settings import RequestBounds, Settings

NUMBERS = """
.decl n(x: number)
.decl text(t: symbol)
.decl pattern(p: symbol)
.decl matching(p: symbol, t: symbol)
matching(P, T) :- pattern(P), text(T), match(P, T).
"""


def running(program: str = CLOSURE, **bounds: float) -> Running:
    database = upshot.connect()
    database.define(program)
    return Running(database, Settings(bounds=RequestBounds(**bounds)))  # type: ignore[arg-type]


def test_a_body_beyond_its_bound_is_refused_before_it_is_read() -> None:
    with running(body=1_000) as service:
        body = {"insert": {"edge": [["x" * 1_000, "y"]]}}
        status, answer, _ = service.request("POST", "/transactions", body)
        assert (status, answer["error"]["code"]) == (413, "too-large")
        assert service.request("POST", "/transactions", {"insert": {"edge": [["x", "y"]]}})[0] == 200


def test_a_body_in_chunks_is_counted_as_it_comes() -> None:
    with running(body=1_000) as service, socket.create_connection(("127.0.0.1", service.port)) as client:
        head = "POST /transactions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        client.sendall((head + "Transfer-Encoding: chunked\r\n\r\n").encode())
        client.sendall(b"400\r\n" + b" " * 0x400 + b"\r\n")
        client.settimeout(PATIENCE)
        assert b"413" in client.recv(4_096).partition(b"\r\n")[0]


def test_an_answer_has_at_most_so_many_rows() -> None:
    with running(rows=3) as service:
        service.request("POST", "/transactions", {"insert": {"edge": [[str(i), "y"] for i in range(5)]}})
        status, answer, _ = service.request("GET", "/views/edge?limit=100")
        assert (status, len(answer["rows"]), "next" in answer) == (200, 3, True)
        status, answer, _ = service.request("POST", "/query", {"query": "edge(X, Y)"})
        assert (status, answer["error"]["code"]) == (422, "too-many-rows")


@pytest.mark.slow
def test_a_question_without_end_is_cut_off_and_others_go_on() -> None:
    with running(NUMBERS, seconds=2.0) as service:
        with service.database.transaction() as tx:
            tx.insert("n", [(i,) for i in range(2_000)])
        for query in ("n(A), n(B), n(C), n(D), A + B + C + D < 0", "n(A), n(B), n(C), n(D)"):
            began = time.process_time()
            status, answer, _ = service.request("POST", "/query", {"query": query})
            assert status == 422
            assert answer["error"]["code"] in ("timeout", "too-many-rows")
            assert time.process_time() - began < 8
        assert service.request("POST", "/query", {"query": "n(A), A < 3"})[1]["rows"] == [[0], [1], [2]]


def test_a_hostile_pattern_does_not_hang_a_commit() -> None:
    with running(NUMBERS) as service:
        began = time.process_time()
        body = {"insert": {"text": [["a" * 3_000]], "pattern": [["(a+)+b"], ["(a|aa)*c"], ["a*"]]}}
        status, answer, _ = service.request("POST", "/transactions", body)
        assert status == 200
        assert answer["changes"]["matching"]["insert"] == [["a*", "a" * 3_000]]
        assert time.process_time() - began < 8
        refused = {"insert": {"pattern": [[r"(a+)+\1b"]]}}
        status, answer, _ = service.request("POST", "/transactions", refused)
        assert (status, answer["error"]["code"]) == (400, "bad-pattern")


@pytest.mark.slow
def test_a_transaction_that_takes_too_long_is_undone_and_the_next_one_is_not() -> None:
    program = ".decl n(x: number)\n.decl m(x: number)\nm(X) :- n(X), n(Y), n(Z), X + Y + Z < 0."
    with running(program, seconds=2.0) as service:
        body = {"insert": {"n": [[i] for i in range(6_000)]}}
        status, answer, _ = service.request("POST", "/transactions", body)
        assert (status, answer["error"]["code"]) == (422, "timeout")
        assert service.request("GET", "/views/n")[1]["rows"] == []
        assert service.request("POST", "/transactions", {"insert": {"n": [[1]]}})[0] == 200
        service.database.verify()


def test_a_queue_that_is_full_says_so_and_nothing_is_lost() -> None:
    with running(queue=2, group=1) as service:
        go_on = threading.Event()
        reached = threading.Event()

        def hold() -> None:
            reached.set()
            go_on.wait(PATIENCE)

        holding = threading.Thread(target=lambda: service.do(service.service.writer.between_commits(hold)))
        holding.start()
        assert reached.wait(PATIENCE)
        found: list[tuple[int, dict[str, object]]] = []

        def send(number: int) -> None:
            body = {"insert": {"edge": [[f"{number}", "y"]]}}
            status, answer, _ = service.request("POST", "/transactions", body)
            found.append((status, answer))

        threads = [threading.Thread(target=send, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        until = time.monotonic() + PATIENCE
        while len(found) < 4 and time.monotonic() < until:
            time.sleep(0.02)
        go_on.set()
        for thread in (*threads, holding):
            thread.join()
        assert sorted(status for status, _ in found) == [200] * 2 + [503] * 4
        refused = next(answer for status, answer in found if status == 503)
        assert refused["error"]["retryable"] is True  # type: ignore[index]
        assert len(service.request("GET", "/views/edge")[1]["rows"]) == 2


def test_a_failing_disk_fails_the_group_and_can_be_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = upshot.connect(tmp_path / "store")
    database.define(CLOSURE)
    with Running(database) as service:
        journal = database._state.journal
        assert journal is not None
        write = journal.write_group

        def fails() -> None:
            raise OSError(28, "no space left on device")

        monkeypatch.setattr(journal, "write_group", fails)
        status, answer, _ = service.request("POST", "/transactions", {"insert": {"edge": [["a", "b"]]}})
        assert status == 503
        assert answer["error"]["retryable"] is True
        assert "space" not in json.dumps(answer)
        monkeypatch.setattr(journal, "write_group", write)
        assert service.request("GET", "/views/closure")[1]["rows"] == []
