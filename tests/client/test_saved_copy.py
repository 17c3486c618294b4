"""A copy that is kept in a file goes on where its client was stopped."""

from __future__ import annotations

import datetime as dt
import math
import sqlite3
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from tests.client.scripted_service import (
    PROGRAM,
    Request,
    ScriptedService,
    answer,
    change,
    event,
    progress,
    snapshot,
    stream_head,
)
from upshot.client import Change, Client
from upshot.core.errors import UsageError

WAIT = 120.0


def history(request: Request) -> Iterator[bytes]:
    """Twelve versions; one row comes with each, and goes five later."""
    if request.path == "/program":
        yield from answer(PROGRAM)
        return
    if "text/event-stream" not in request.headers["accept"]:
        yield from answer({**_state(12), "epoch": "e"})
        return
    yield stream_head()
    at = request.cursor
    if at is None:
        at = 7
        yield snapshot(at, _state(at)["rows"], epoch="e")
    for version in range(at + 1, 13):
        yield change(version, [[version, 0]], [[version - 5, 0]] if version > 5 else [])
    yield progress(14)
    time.sleep(30)


def _state(version: int) -> dict[str, object]:
    rows = [[v, 0] for v in range(max(1, version - 4), version + 1)]
    return {"version": version, "rows": rows, "columns": PROGRAM["relations"][0]["columns"]}  # type: ignore[index]


ALL = {(version, 0) for version in range(8, 13)}


def test_a_client_goes_on_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "edge.copy"
    with ScriptedService(history) as service:
        with Client(service.url).follow("edge", state=file) as copy:
            assert copy.wait(14, WAIT)
            assert copy.rows == ALL
        asked = len(service.requests)
        seen: list[Change] = []
        with Client(service.url).follow("edge", state=file, on_change=seen.append) as copy:
            assert copy.state() == (14, ALL)
            until = time.monotonic() + WAIT
            while len(service.requests) == asked and time.monotonic() < until:
                time.sleep(0.01)
        resumed = service.requests[asked]
        assert (resumed.cursor, resumed.parameters["epoch"]) == (14, "e")
        assert seen == []


def test_without_a_service_the_copy_is_what_it_was(tmp_path: Path) -> None:
    file = tmp_path / "edge.copy"
    with ScriptedService(history) as service, Client(service.url).follow("edge", state=file) as copy:
        assert copy.wait(14, WAIT)
    with Client("http://127.0.0.1:9").follow("edge", state=file) as copy:
        assert copy.state() == (14, ALL)


def test_every_state_of_the_file_is_a_version_of_the_view(tmp_path: Path) -> None:
    file = tmp_path / "edge.copy"
    states: list[tuple[str, set[str]]] = []

    def look(_: Change) -> None:
        """What a client that is killed now would find."""
        here = tmp_path / "killed"
        for end in ("", "-wal"):
            if Path(f"{file}{end}").exists():
                Path(f"{here}{end}").write_bytes(Path(f"{file}{end}").read_bytes())
        database = sqlite3.connect(here)
        facts = dict(database.execute("SELECT name, value FROM copy"))
        rows = {text for (text,) in database.execute("SELECT content FROM row")}
        database.close()
        for end in ("", "-wal", "-shm"):
            Path(f"{here}{end}").unlink(missing_ok=True)
        if "version" in facts:
            states.append((facts["version"], rows))

    with ScriptedService(history) as service, Client(service.url).follow("edge", state=file, on_change=look) as copy:
        assert copy.wait(14, WAIT)
    assert [version for version, _ in states] == ["7", "8", "9", "10", "11"]
    for version, rows in states:
        assert rows == {f"[{v},0]" for v in range(int(version) - 4, int(version) + 1)}


@pytest.mark.parametrize("since", [0, 2, 5, 12])
def test_a_copy_can_begin_in_the_past(tmp_path: Path, since: int) -> None:
    seen: list[Change] = []
    with ScriptedService(history) as service:
        with Client(service.url).follow("edge", since=since, on_change=seen.append, state=tmp_path / "c") as copy:
            assert copy.wait(14, WAIT)
            assert copy.rows == ALL
        assert [c.version for c in seen] == list(range(since + 1, 13))
        with Client(service.url).follow("edge", state=tmp_path / "c") as copy:
            assert copy.state() == (14, ALL)


def test_values_of_every_type_come_back(tmp_path: Path) -> None:
    types = [
        "number",
        "unsigned",
        "float",
        "float",
        "symbol",
        "boolean",
        "date",
        "timestamp",
        "decimal(6,2)",
        "symbol?",
    ]
    columns = [{"name": f"c{n}", "type": type} for n, type in enumerate(types)]
    row = [-1, 2**64 - 1, "NaN", -0.0, 'é"\n\0', True, "2026-01-31", "2026-01-31T09:00:00.25Z", "1.50", None]

    def script(_: Request) -> Iterator[bytes]:
        yield stream_head() + event("snapshot", {"version": 1, "rows": [row], "columns": columns}, 1)
        time.sleep(30)

    moment = dt.datetime(2026, 1, 31, 9, 0, 0, 250_000, tzinfo=dt.UTC)
    day, price = dt.date(2026, 1, 31), Decimal("1.50")
    expected = (-1, 2**64 - 1, math.nan, 0.0, 'é"\n\0', True, day, moment, price, None)
    for _ in range(2):
        with ScriptedService(script) as service, Client(service.url).follow("t", state=tmp_path / "t") as copy:
            assert copy.rows == {expected}


def test_a_file_of_something_else_is_refused_untouched(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello, this is no database at all" * 50)
    sqlite3.connect(tmp_path / "other").execute("CREATE TABLE t (x)").connection.close()
    with ScriptedService(history) as service:
        client = Client(service.url)
        client.follow("edge", state=tmp_path / "good").close()
        before = {name: (tmp_path / name).read_bytes() for name in ("text", "other", "good")}
        for name, options in (("text", {}), ("other", {}), ("good", {"where": "edge(1, Y)"})):
            with pytest.raises(UsageError) as error:
                client.follow("edge", state=tmp_path / name, **options)
            assert error.value.code == "wrong-state"
        assert {name: (tmp_path / name).read_bytes() for name in before} == before


def test_a_file_serves_one_client_at_a_time(tmp_path: Path) -> None:
    with ScriptedService(history) as service:
        client = Client(service.url)
        with client.follow("edge", state=tmp_path / "c"), pytest.raises(UsageError) as error:
            client.follow("edge", state=tmp_path / "c")
        assert error.value.code == "state-in-use"
        client.follow("edge", state=tmp_path / "c").close()
