"""Server-sent events, however their bytes are cut."""

from __future__ import annotations

import random

import pytest

from tests.properties.settings import case_count, seed_of
from upshot.client.event_stream import BrokenStream, EventParser, ServerEvent, TooLarge


def parsed(data: bytes, largest: int = 1 << 20) -> list[ServerEvent]:
    return list(EventParser(largest).feed(data))


@pytest.mark.parametrize(
    ("data", "events"),
    [
        (b"data: a\n\n", [ServerEvent("message", "a")]),
        (b"data:a\n\n", [ServerEvent("message", "a")]),
        (b"data:  a\n\n", [ServerEvent("message", " a")]),
        (b"data: a\ndata: b\n\n", [ServerEvent("message", "a\nb")]),
        (b"data\n\n", [ServerEvent("message", "")]),
        (b"data\ndata\n\n", [ServerEvent("message", "\n")]),
        (b"event: change\ndata: a\r\n\r\n", [ServerEvent("change", "a")]),
        (b"event: change\rdata: a\r\r", [ServerEvent("change", "a")]),
        (b"\xef\xbb\xbfdata: a\n\n", [ServerEvent("message", "a")]),
        (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", []),
        (b": a comment\ndata: a\n: another\n\n", [ServerEvent("message", "a")]),
        (b"event: nothing\nid: 3\n\ndata: a\n\n", [ServerEvent("message", "a", "3")]),
        (b"id: 3\ndata: a\n\ndata: b\n\n", [ServerEvent("message", "a", "3"), ServerEvent("message", "b", "3")]),
        (b"id: 3\ndata: a\n\nid\ndata: b\n\n", [ServerEvent("message", "a", "3"), ServerEvent("message", "b")]),
        (b"id: 3\nid: 4\0\ndata: a\n\n", [ServerEvent("message", "a", "3")]),
        (b"unknown: x\ndata: a: b\n\n", [ServerEvent("message", "a: b")]),
        (b"event: x\ndata: a\n\ndata: b\n\n", [ServerEvent("x", "a"), ServerEvent("message", "b")]),
        (b"data: cut off", []),
        (b"data: cut off\n", []),
        (b"\n\n\n", []),
        ("data: Übergröße\n\n".encode(), [ServerEvent("message", "Übergröße")]),
        ("data: a\u2028b\x85c\n\n".encode(), [ServerEvent("message", "a\u2028b\x85c")]),
    ],
)
def test_events_are_read_as_the_standard_has_it_however_they_are_cut(data: bytes, events: list[ServerEvent]) -> None:
    assert parsed(data) == events
    parser = EventParser()
    assert [found for at in range(len(data)) for found in parser.feed(data[at : at + 1])] == events
    for cut in range(len(data)):
        parser = EventParser()
        assert [*parser.feed(data[:cut]), *parser.feed(b""), *parser.feed(data[cut:])] == events


def test_the_server_says_how_long_to_wait() -> None:
    parser = EventParser()
    list(parser.feed(b"retry: 1500\nretry: soon\nretry: -1\n"))
    assert parser.retry == 1.5


def test_a_line_or_an_event_beyond_its_bound_is_refused_before_it_is_complete() -> None:
    assert parsed(b"data: " + b"x" * 94 + b"\n\n", 100)
    for data in (b"data: " + b"x" * 95, b"x" * 101, (b"data: " + b"x" * 30 + b"\n") * 3, b"id: " + b"1" * 2000 + b"\n"):
        with pytest.raises(TooLarge):
            parsed(data, 100 if len(data) < 1000 else 1 << 20)


def test_text_that_is_not_utf_8_breaks_the_stream() -> None:
    with pytest.raises(BrokenStream):
        parsed(b"data: \xff\n\n")


def test_random_streams_are_the_same_in_pieces_of_any_size() -> None:
    for number in range(case_count()):
        dice = random.Random(seed_of("event-stream", number))
        words = ["data", ":", " ", "\n", "\r", "\r\n", "id: 1", "event: e", "é", "\ufeff", "data: x", "\n\n", ": c"]
        data = "".join(dice.choice(words) for _ in range(dice.randrange(30))).encode()
        whole, parser, pieces, at = parsed(data), EventParser(), [], 0
        while at < len(data):
            size = dice.randrange(1, 6)
            pieces += parser.feed(data[at : at + size])
            at += size
        assert pieces == whole, data
