"""Rings and what is shared in them, without a server."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any

from upshot.core.schema import Column, Schema
from upshot.core.types import NUMBER
from upshot.database.changes import NetChange
from upshot.service.feed.selections import Selection
from upshot.service.feed.streams import (
    LARGEST_CHUNK,
    ChangeStream,
    RingBounds,
    StreamEvent,
    change_event,
    end_event,
    progress_event,
    snapshot_event,
)

SCHEMA = Schema("item", (Column("n", NUMBER),))


def entry(version: int, size: int = 10) -> StreamEvent:
    return StreamEvent(version, [(version,)], [], b"x" * size)


def stream(base: int = 0, **bounds: Any) -> ChangeStream:
    return ChangeStream(Selection("item"), SCHEMA, base, RingBounds(**bounds))


def test_a_place_is_found_by_version_and_everything_after_it_is_taken_at_once() -> None:
    ring = stream(base=3)
    for version in (4, 6, 7):
        ring.append(entry(version))
    assert ring.place_after(2) is None
    for since, versions in ((3, [4, 6, 7]), (4, [6, 7]), (5, [6, 7]), (7, []), (9, [])):
        place = ring.place_after(since)
        assert place is not None
        taken = ring.take(place)
        assert taken is not None
        assert [each.version for each in taken.entries] == versions
        assert taken.place == ring.end


def test_what_is_beyond_the_bounds_is_forgotten_and_whoever_was_there_is_told() -> None:
    ring = stream(events=3)
    for version in range(1, 6):
        ring.append(entry(version))
    assert ring.base == 2
    assert ring.place_after(1) is None
    assert ring.take(0) is None
    assert ring.take(2) is not None
    by_size = stream(bytes=100)
    for version in range(1, 6):
        by_size.append(entry(version, 40))
    assert by_size.base == 3
    by_size.append(entry(6, 1000))
    assert by_size.base == 5, "one event stays, however large it is"


def test_one_write_has_a_bound_unless_a_single_event_is_larger() -> None:
    ring = stream()
    for version in range(1, 6):
        ring.append(entry(version, LARGEST_CHUNK // 2))
    taken = ring.take(0)
    assert taken is not None
    assert len(taken.entries) == 2
    ring.append(entry(6, 2 * LARGEST_CHUNK))
    taken = ring.take(5)
    assert taken is not None
    assert [each.version for each in taken.entries] == [6]


def test_those_at_one_place_share_the_bytes() -> None:
    ring = stream()
    ring.append(entry(1))
    ring.append(entry(2))
    assert ring.take(0) is ring.take(0)
    ring.append(entry(3))
    taken = ring.take(0)
    assert taken is not None
    assert len(taken.entries) == 3


def test_many_who_wait_are_woken_less_often() -> None:
    async def woken() -> list[float]:
        ring = stream()
        times = []
        for _ in range(4):
            waiting = [ring.waiter() for _ in range(500)]
            ring.append(entry(1))
            ring.wake()
            await asyncio.gather(*waiting)
            times.append(ring._woken_at)
        return times

    times = asyncio.run(woken())
    assert all(later - earlier > 0.02 for earlier, later in itertools.pairwise(times))


def test_a_net_change_forgets_what_came_and_went() -> None:
    net = NetChange()
    net.add([(1,), (2,)], [(3,)])
    net.add([(3,), (4,)], [(1,)])
    net.add([(1,)], [(4,), (5,)])
    assert (net.inserted, net.deleted) == ({(1,), (2,)}, {(5,)})
    nan = NetChange()
    nan.add([(float("nan"),)], [])
    nan.add([], [(float("nan"),)])
    assert (nan.inserted, nan.deleted) == (set(), set())


def test_events_are_lines_with_one_line_of_json() -> None:
    text = change_event(3, [("a\nb\r\u2028",)], []).decode()
    assert text.count("\n") == 4
    assert json.loads(text.split("data: ")[1]) == {"version": 3, "insert": [["a\nb\r\u2028"]], "delete": []}
    snapshot = snapshot_event(3, SCHEMA, [(1,)], "e", "history-not-kept").decode()
    assert snapshot.startswith("event: snapshot\nid: 3\ndata: ")
    assert json.loads(snapshot.split("data: ")[1])["rows"] == [[1]]
    assert progress_event(4) == b'event: progress\nid: 4\ndata: {"version":4}\n\n'
    assert end_event("too-slow", 4) == b'event: end\ndata: {"reason":"too-slow","cursor":4}\n\n'
