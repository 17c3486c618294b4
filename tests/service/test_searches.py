"""Searches for realizations beside commits: nobody waits long for them, and they end."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.service.search_turns import check_turns, until, watched_turns
from tests.service.served_process import PATIENCE
from tests.service.serving import Running
from tests.service.test_realizations import ACCESS, HARD, TAKE_AWAY, TEAMS, asked, refused, serving
from upshot.service.settings import RequestBounds, Settings


@pytest.fixture
def access() -> Iterator[Running]:
    with serving(ACCESS, **TEAMS) as running:
        yield running


def grid(side: int) -> list[tuple[Any, ...]]:
    """A grid, in which the ways to cut its corners apart are many."""
    right = [(x * side + y, x * side + y + 1) for x in range(side) for y in range(side - 1)]
    down = [(x * side + y, (x + 1) * side + y) for x in range(side - 1) for y in range(side)]
    return right + down


@pytest.mark.slow
def test_a_search_without_end_is_cut_off_and_commits_go_on_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = watched_turns(monkeypatch)
    with serving(HARD, Settings(bounds=RequestBounds(seconds=5.0)), e=grid(8)) as running:
        answers: list[dict[str, Any]] = []
        body = {"delete": {"p": [[0, 63]]}, "limit": 1_000, "bounds": {"seconds": 3.5}}
        searches = [threading.Thread(target=lambda: answers.append(asked(running, **body))) for _ in range(3)]
        for each in searches:
            each.start()
        number = 0
        while any(each.is_alive() for each in searches):
            assert running.request("POST", "/transactions", {"insert": {"noise": [[number]]}})[0] == 200
            number += 1
            time.sleep(0.1)
        assert [each["status"] for each in answers] == ["bounds reached"] * 3
        assert all("within 3.5 seconds" in each["reason"] for each in answers)
        assert any("in which the database changed" in each["reason"] for each in answers)
        assert number >= 5
        check_turns(turns)
        running.database.verify()


@pytest.mark.slow
def test_a_search_ends_on_a_database_that_is_changed_all_the_time(access: Running) -> None:
    stop = threading.Event()

    def change() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            assert access.request("POST", "/transactions", {"insert": {"team": [[f"t{number}"]]}})[0] == 200

    threads = [threading.Thread(target=change) for _ in range(3)]
    for each in threads:
        each.start()
    try:
        versions = []
        for _ in range(10):
            found = asked(access, **TAKE_AWAY)
            assert (found["status"], len(found["realizations"])) == ("all", 3)
            versions.append(found["version"])
        assert versions == sorted(versions)
        assert versions[-1] > versions[0]
    finally:
        stop.set()
        for each in threads:
            each.join()


@pytest.mark.parametrize("most_copied", [1_000_000, 1])
def test_a_search_with_long_steps_ends_on_a_database_that_is_changed_all_the_time(
    access: Running, monkeypatch: pytest.MonkeyPatch, most_copied: int
) -> None:
    """Every look at the clock would have it begin again; in a copy nobody waits for it. Without one, it is cut off."""
    monkeypatch.setattr("upshot.service.writing.searches.PATIENCE", 0.0)
    monkeypatch.setattr("upshot.service.writing.searches.MOST_COPIED", most_copied)
    monkeypatch.setattr(type(access.service.writer), "is_urgent", True)
    turns = watched_turns(monkeypatch)
    before = access.database.version
    body = {**TAKE_AWAY, "bounds": {"seconds": 60 if most_copied > 1 else 0.5}}
    found = asked(access, **body)
    if most_copied == 1:
        assert (found["status"], found["realizations"]) == ("bounds reached", [])
        assert all(turn.on_writer for turn in turns)
        return
    assert (found["status"], len(found["realizations"]), found["version"]) == ("all", 3, before)
    assert [turn.on_writer for turn in turns[:4]] == [True] * 3 + [False]
    monkeypatch.undo()
    assert asked(access, **TAKE_AWAY) == found, "word for word what is found where nobody commits"


def test_too_many_searches_are_told_to_come_again() -> None:
    settings = Settings(bounds=RequestBounds(seconds=2.0, searches=1))
    with serving(ACCESS, settings, **TEAMS) as running:
        go_on = threading.Event()
        holding = threading.Thread(
            target=lambda: running.do(running.service.writer.between_commits(lambda: go_on.wait(PATIENCE)))
        )
        holding.start()
        first = threading.Thread(target=lambda: running.request("POST", "/realizations", TAKE_AWAY))
        first.start()
        until(running.service.searches._turns.locked)
        assert refused(running, "/realizations", TAKE_AWAY) == (503, "too-busy")
        go_on.set()
        for each in (first, holding):
            each.join()
        assert asked(running, **TAKE_AWAY)["status"] == "all"


def test_nobody_goes_on_with_a_search_whose_client_has_gone() -> None:
    settings = Settings(bounds=RequestBounds(seconds=10 * PATIENCE, searches=1))
    with serving(HARD, settings, e=grid(8)) as running:
        body = json.dumps({"delete": {"p": [[0, 63]]}, "limit": 1_000}).encode()
        head = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", running.port)) as client:
            client.sendall(f"POST /realizations HTTP/1.1\r\n{head}".encode() + body)
            until(running.service.searches._turns.locked)
        assert asked(running, insert={"noise": [[1]]})["status"] == "all", "long before the time of the other is up"
