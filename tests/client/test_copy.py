"""A copy is exactly the view, whatever happens to its connections."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from tests.client.scripted_service import (
    PROGRAM,
    Request,
    ScriptedService,
    answer,
    change,
    end,
    event,
    progress,
    refused,
    snapshot,
    stream_head,
)
from tests.service.served_process import free_port
from upshot.client import Change, Client
from upshot.core.errors import EngineError, Error, LimitError, UsageError

WAIT = 120.0


def service_of(*connections: Callable[[Request], Iterable[bytes]] | Iterable[bytes], port: int = 0) -> ScriptedService:
    """Each connection to the stream gets the next of these; the last one is for all that follow."""
    left = list(connections)

    def script(request: Request) -> Iterable[bytes]:
        if request.path == "/program":
            return answer(PROGRAM)
        assert request.path == "/views/edge/changes", request.path
        chosen = left.pop(0) if len(left) > 1 else left[0]
        return chosen(request) if callable(chosen) else chosen

    return ScriptedService(script, port)


def forever(*pieces: bytes, hold: float = 60.0) -> Callable[[Request], Iterator[bytes]]:
    def script(_: Request) -> Iterator[bytes]:
        yield stream_head()
        yield from pieces
        time.sleep(hold)

    return script


def torn(*pieces: bytes) -> Callable[[Request], Iterator[bytes]]:
    return forever(*pieces, hold=0.0)


def followed(service: ScriptedService, **options: Any) -> tuple[Any, list[Change]]:
    seen: list[Change] = []
    client = Client(service.url, retry_for=WAIT)
    return client.follow("edge", on_change=seen.append, **options), seen


def cursors(service: ScriptedService) -> list[int | None]:
    return [request.cursor for request in service.requests if request.path.endswith("/changes")]


def test_a_copy_begins_with_a_snapshot_and_takes_every_change() -> None:
    pieces = snapshot(3, [[1, 2], [2, 3]]), change(4, [[3, 4]], [[1, 2]]), progress(6), change(7, [], [[3, 4]])
    with service_of(forever(*pieces)) as service:
        copy, seen = followed(service)
        with copy:
            assert copy.wait(7, WAIT)
            assert copy.state() == (7, {(2, 3)})
            assert (2, 3) in copy
            assert (1, 2) not in copy
            assert len(copy) == 1
            assert copy.columns == ("x", "y")
            assert not copy.wait(8, 0.01)
    assert [(c.version, c.inserted, c.deleted, c.snapshot) for c in seen] == [
        (3, {(1, 2), (2, 3)}, set(), True),
        (4, {(3, 4)}, {(1, 2)}, False),
        (7, set(), {(3, 4)}, False),
    ]
    assert copy.rows == {(2, 3)}
    with pytest.raises(UsageError, match="closed"):
        copy.wait(8)


def test_wherever_a_stream_is_cut_the_copy_goes_on_exactly() -> None:
    steps = {4: change(4, [[3, 4]]), 5: progress(5), 6: change(6, [[5, 6]], [[1, 2]])}
    for cut in range(1, sum(len(piece) for piece in steps.values())):
        first = snapshot(3, [[1, 2]]) + b"".join(steps.values())
        shown = len(first) - cut

        def rest(request: Request) -> Iterator[bytes]:
            yield stream_head()
            cursor = request.cursor
            assert cursor is not None
            yield b"".join(piece for version, piece in steps.items() if version > cursor)
            time.sleep(60)

        with service_of(torn(first[:shown]), rest) as service:
            copy, seen = followed(service)
            with copy:
                assert copy.wait(6, WAIT)
                assert copy.rows == {(3, 4), (5, 6)}
            assert [c.version for c in seen] == [3, 4, 6], cut


def test_a_cut_in_the_middle_of_a_character_loses_nothing() -> None:
    columns = [{"name": "t", "type": "symbol"}]
    whole = event("snapshot", {"version": 1, "rows": [], "columns": columns}, 1)
    told = event("change", {"version": 2, "insert": [["Zürich 🚆"]], "delete": []}, 2)
    for cut in range(len(told)):

        def rest(request: Request, cut: int = cut) -> Iterator[bytes]:
            assert request.cursor == 1
            yield stream_head() + told
            time.sleep(60)

        with service_of(torn(whole + told[:cut]), rest) as service:
            copy, _ = followed(service)
            with copy:
                assert copy.wait(2, WAIT)
                assert copy.rows == {("Zürich 🚆",)}


def test_what_was_told_already_is_ignored() -> None:
    again = change(4, [[3, 4]])
    pieces = snapshot(3, [[1, 2]]), again, again, snapshot(3, [[9, 9]]), progress(2), change(5, [], [[3, 4]])
    with service_of(forever(*pieces)) as service:
        copy, seen = followed(service)
        with copy:
            assert copy.wait(5, WAIT)
            assert copy.rows == {(1, 2)}
    assert [c.version for c in seen] == [3, 4, 5]


def test_a_callback_hears_of_one_sign_and_of_so_many_rows_while_the_copy_is_exact() -> None:
    pieces = (
        snapshot(3, [[1, 2]]),
        change(4, [[3, 4], [5, 6], [7, 8]]),
        change(5, [], [[3, 4]]),
        change(6, [[9, 9]], [[5, 6]]),
    )
    for options, heard in (
        ({"events": "insert"}, [(3, 1, 0, 0), (4, 3, 0, 0), (6, 1, 0, 0)]),
        ({"events": "delete"}, [(3, 1, 0, 0), (5, 0, 1, 0), (6, 0, 1, 0)]),
        ({"limit": 1}, [(3, 1, 0, 0), (4, 1, 0, 2), (5, 0, 1, 0), (6, 1, 1, 0)]),
    ):
        with service_of(forever(*pieces)) as service:
            copy, seen = followed(service, **options)
            with copy:
                assert copy.wait(6, WAIT)
                assert copy.rows == {(1, 2), (7, 8), (9, 9)}
        assert [(c.version, len(c.inserted), len(c.deleted), c.omitted) for c in seen] == heard, options
    for wrong in ({"events": "both"}, {"limit": -1}, {"limit": True}):
        with pytest.raises(UsageError) as caught:
            Client("http://127.0.0.1:9").follow("edge", **wrong)  # type: ignore[arg-type]
        assert caught.value.code == "wrong-argument"


def test_a_gap_is_refused_and_asked_for_again() -> None:
    gap = torn(snapshot(3, []), change(4, [[1, 2]], since=3), change(6, [[5, 6]], since=5))
    rest = forever(change(5, [[3, 4]], since=4), change(6, [[5, 6]], since=5))
    with service_of(gap, rest) as service:
        copy, seen = followed(service)
        with copy:
            assert copy.wait(6, WAIT)
            assert copy.rows == {(1, 2), (3, 4), (5, 6)}
        assert cursors(service) == [None, 4]
    assert [c.version for c in seen] == [3, 4, 5, 6]


@pytest.mark.parametrize("wrong", [change(4, [[1, 2]]), change(4, [], [[7, 7]]), change(4, [[5, 6]], [[7, 7]])])
def test_a_change_that_does_not_follow_makes_the_copy_start_over(wrong: bytes) -> None:
    with service_of(forever(snapshot(3, [[1, 2]]), wrong), forever(snapshot(4, [[1, 2], [5, 6]]))) as service:
        troubles: list[Error] = []
        copy, seen = followed(service, on_trouble=troubles.append)
        with copy:
            assert copy.wait(4, WAIT)
            assert copy.rows == {(1, 2), (5, 6)}
        assert cursors(service) == [None, None]
    assert "does not match the earlier changes" in troubles[0].message
    assert [(c.version, c.inserted, c.renewed) for c in seen][1:] == [(4, {(5, 6)}, True)]


def test_a_snapshot_that_comes_again_is_told_as_the_net_difference() -> None:
    renewed = forever(snapshot(90, [[2, 3], [3, 4]], reason="history-not-kept"), change(91, [], [[2, 3]]))
    with service_of(torn(snapshot(3, [[1, 2], [2, 3]])), renewed) as service:
        copy, seen = followed(service)
        with copy:
            assert copy.wait(91, WAIT)
            assert copy.rows == {(3, 4)}
    assert cursors(service) == [None, 3]
    again = seen[1]
    assert (again.version, again.inserted, again.deleted) == (90, {(3, 4)}, {(1, 2)})
    assert (again.snapshot, again.renewed, again.reason) == (False, True, "history-not-kept")


def test_other_columns_come_with_a_snapshot() -> None:
    wide = [{"name": "x", "type": "number"}, {"name": "t", "type": "symbol?"}, {"name": "d", "type": "date"}]
    told = event("snapshot", {"version": 5, "rows": [[1, None, "2026-01-31"]], "columns": wide}, 5)
    with service_of(forever(snapshot(3, [[1, 2]]), told)) as service:
        copy, seen = followed(service)
        with copy:
            assert copy.wait(5, WAIT)
            assert copy.columns == ("x", "t", "d")
    assert seen[1].deleted == {(1, 2)}
    assert len(seen[1].inserted) == 1


def test_another_database_behind_the_same_address_is_told_from_a_restart() -> None:
    def other(request: Request) -> Iterator[bytes]:
        assert (request.cursor, request.parameters["epoch"]) == (3, "a")
        yield stream_head()
        yield snapshot(2, [[8, 8]], epoch="b", reason="history-not-kept")
        time.sleep(60)

    with service_of(torn(snapshot(3, [[1, 2]], epoch="a")), other) as service:
        copy, seen = followed(service)
        with copy:
            assert _eventually(lambda: copy.state() == (2, {(8, 8)}))
    assert [c.version for c in seen] == [3, 2]


def test_the_service_ends_a_stream_and_the_copy_comes_back() -> None:
    troubles: list[Error] = []
    first = forever(snapshot(3, [[1, 2]]), end("too-slow", 3))
    with service_of(first, forever(change(4, [[2, 3]]))) as service:
        copy, _ = followed(service, on_trouble=troubles.append)
        with copy:
            assert copy.wait(4, WAIT)
    assert "too-slow" in troubles[0].message
    assert troubles[0].retryable


def test_a_connection_that_falls_silent_is_given_up() -> None:
    with service_of(forever(snapshot(3, [[1, 2]])), forever(change(4, [[2, 3]]))) as service:
        copy, _ = followed(service, silence=1.0)
        with copy:
            assert copy.wait(4, WAIT)
        assert cursors(service)[:2] == [None, 3]


@pytest.mark.slow
def test_heartbeats_keep_a_quiet_connection() -> None:
    def beating(_: Request) -> Iterator[bytes]:
        yield stream_head() + snapshot(3, [])
        for _ in range(20):
            time.sleep(0.2)
            yield progress(3)
        yield progress(9)
        time.sleep(60)

    with service_of(beating) as service:
        copy, seen = followed(service, silence=3.0)
        with copy:
            assert copy.wait(9, WAIT)
        assert cursors(service) == [None]
    assert [c.version for c in seen] == [3]


def test_a_copy_outlives_the_service() -> None:
    first = service_of(forever(snapshot(3, [[1, 2]])), port=free_port())
    copy, _ = followed(first)
    with copy:
        first.stop()
        time.sleep(0.2)

        def script(request: Request) -> Iterable[bytes]:
            assert request.cursor == 3
            return forever(change(4, [[2, 3]]))(request)

        with ScriptedService(script, first.port):
            assert copy.wait(4, WAIT)
            assert copy.rows == {(1, 2), (2, 3)}


def test_a_service_that_is_busy_or_starts_is_asked_again() -> None:
    busy = refused(503, "too-busy", retryable=True)
    bad_gateway = answer(b"<html>", 502)
    with service_of(busy, bad_gateway, forever(snapshot(1, []))) as service:
        copy, _ = followed(service)
        with copy:
            assert copy.version == 1


@pytest.mark.parametrize(("status", "code"), [(404, "not-found"), (401, "unauthorized"), (403, "forbidden")])
def test_what_is_refused_for_good_is_raised(status: int, code: str) -> None:
    with service_of(lambda _: refused(status, code)) as service, pytest.raises(UsageError) as error:
        followed(service)
    assert error.value.code == code
    assert error.value.help == "do something"


def test_a_refusal_later_ends_the_copy_and_is_raised_by_whoever_waits() -> None:
    with service_of(torn(snapshot(1, [[1, 2]])), lambda _: refused(403, "forbidden")) as service:
        copy, _ = followed(service)
        with copy:
            with pytest.raises(UsageError, match="forbidden"):
                copy.wait(5, WAIT)
            assert not copy.is_open
            assert copy.rows == {(1, 2)}
            with pytest.raises(UsageError, match="forbidden"):
                list(copy.changes())


def test_an_answer_that_is_no_event_stream_is_refused() -> None:
    with service_of(lambda _: answer({"version": 1})) as service, pytest.raises(EngineError) as error:
        followed(service)
    assert error.value.code == "unexpected-answer"


def test_an_event_beyond_the_bound_is_refused() -> None:
    with service_of(forever(snapshot(1, [[n, n] for n in range(1000)]))) as service:
        client = Client(service.url, largest=1000)
        with pytest.raises(LimitError) as error:
            client.follow("edge")
    assert error.value.code == "event-too-large"


@pytest.mark.parametrize(
    "broken",
    [
        b"event: change\ndata: {\n\n",
        b"event: change\ndata: []\n\n",
        event("change", {"version": "4", "insert": [], "delete": []}),
        event("change", {"version": 4, "insert": [[1]], "delete": []}),
        event("change", {"version": 4, "insert": [["a", 1]], "delete": []}),
        event("change", {"version": 4, "insert": [[1, 1]]}),
        event("change", {"version": 4, "insert": [[1, 1]], "delete": []}, 5),
        b'event: change\ndata: {"version": 4, "insert": [[NaN, 1]], "delete": []}\n\n',
        b"data: \xff\n\n",
    ],
)
def test_an_event_that_is_damaged_is_asked_for_again(broken: bytes) -> None:
    with service_of(forever(snapshot(3, []), broken), forever(change(4, [[1, 2]]))) as service:
        copy, seen = followed(service)
        with copy:
            assert copy.wait(4, WAIT)
            assert copy.rows == {(1, 2)}
        assert cursors(service) == [None, 3]
    assert [c.version for c in seen] == [3, 4]


def test_events_of_other_kinds_and_comments_are_passed_over() -> None:
    pieces = b": hello\n\n", snapshot(3, []), event("weather", {"rain": True}), b"data: x\n\n", change(4, [[1, 2]])
    with service_of(forever(*pieces)) as service:
        copy, seen = followed(service)
        with copy:
            assert copy.wait(4, WAIT)
    assert len(seen) == 2


def test_a_callback_that_fails_stops_nothing() -> None:
    def failing(change: Change) -> None:
        raise ValueError(change.version)

    with service_of(forever(snapshot(3, []), change(4, [[1, 2]]))) as service:
        copy = Client(service.url).follow("edge", on_change=failing)
        with copy:
            assert copy.wait(4, WAIT)
            assert _eventually(lambda: len(copy.errors) == 2)


def test_changes_are_iterated_in_order_and_end_with_the_copy() -> None:
    told = [change(v, [[v, v]]) for v in range(4, 104)]
    with service_of(forever(snapshot(3, [[0, 0]]), *told)) as service:
        copy, _ = followed(service)
        with copy:
            seen: dict[int, set[Any]] = {}
            feed = copy.changes(snapshot=True)
            rows: set[Any] = set()
            for step in feed:
                rows = set(step.inserted) if step.snapshot else (rows - step.deleted) | step.inserted
                seen[step.version] = set(rows)
                if step.version == 103:
                    break
            assert seen[103] == copy.rows
            assert feed.next(timeout=0.01) is None
            reader = threading.Thread(target=lambda: list(feed))
            reader.start()
            copy.close()
            reader.join(WAIT)
            assert not reader.is_alive()
        assert list(copy.changes()) == []


def test_a_feed_that_nobody_reads_holds_the_copy_up_until_it_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("upshot.client.local_copy.MOST_WAITING", 5)
    begun = threading.Event()

    def script(_: Request) -> Iterator[bytes]:
        yield stream_head() + snapshot(3, [])
        begun.wait(WAIT)
        yield b"".join(change(v, [[v, v]]) for v in range(4, 50))
        time.sleep(60)

    with service_of(script) as service:
        copy, _ = followed(service)
        with copy:
            feed = copy.changes()
            begun.set()
            assert not copy.wait(49, 0.3)
            assert next(feed).version == 4
            del feed
            assert copy.wait(49, WAIT)


def test_closing_wakes_a_copy_that_waits_for_the_service() -> None:
    with service_of(forever(snapshot(3, []), hold=10 * WAIT)) as service:
        copy, _ = followed(service, silence=10 * WAIT)
        begin = time.monotonic()
        copy.close()
        assert time.monotonic() - begin < WAIT
        copy.close()


def test_a_service_that_is_not_there_is_an_error_that_says_so() -> None:
    with pytest.raises(EngineError) as error:
        Client("http://127.0.0.1:9", retry_for=0.1).follow("edge")
    assert error.value.code == "unreachable"
    assert error.value.retryable


def _eventually(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + WAIT
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
