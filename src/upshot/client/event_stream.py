"""A parser of server-sent events, for input in pieces of any size.

https://html.spec.whatwg.org/multipage/server-sent-events.html, read strictly: invalid UTF-8 is an error, and so is a
line or an event beyond its bound.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

LARGEST_EVENT = 256 * 1024 * 1024
"""The largest event, in bytes. A snapshot is one event."""

_LONGEST_NAME = 1024
_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


class BrokenStream(Exception):
    """The received bytes are not a valid event stream."""


class TooLarge(BrokenStream):
    """A line or an event exceeds its bound."""


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """An event; `id` is the last id in the stream, empty before the first."""

    name: str
    data: str
    id: str = ""


class EventParser:
    """Takes pieces of a stream and returns the complete events. An event that is cut off by the end of the stream is
    ignored.

    >>> parser = EventParser()
    >>> list(parser.feed(b"event: change\\ndata: {\\ndata: }\\nid: 7\\n")), list(parser.feed(b"\\n"))
    ([], [ServerEvent(name='change', data='{\\n}', id='7')])
    """

    def __init__(self, largest: int = LARGEST_EVENT) -> None:
        self._largest = largest
        self._buffer = bytearray()
        self._searched = 0
        self._at_start = True
        self._after_return = False
        self._name, self._data, self._size, self._id = "", list[str](), 0, ""
        self.retry: float | None = None
        """Seconds to wait before the next connection, if the server sets them."""

    def feed(self, piece: bytes) -> Iterator[ServerEvent]:
        """The events that `piece` completes."""
        self._buffer += piece
        for line in self._lines():
            event = self._line(line)
            if event is not None:
                yield event

    def _lines(self) -> Iterator[bytes]:
        """The complete lines. The rest stays in the buffer and is not searched again."""
        if not self._past_bom():
            return
        begin = 0
        for end in _LINE_END.finditer(self._buffer, self._searched):
            # A carriage return ends a line; a following line feed, perhaps in the next piece, belongs to it.
            if self._after_return and end.start() == begin and end.group() == b"\n":
                begin, self._after_return = end.end(), False
                continue
            self._after_return = end.group() == b"\r" and end.end() == len(self._buffer)
            self._bounded(end.start() - begin)
            line = bytes(self._buffer[begin : end.start()])
            begin = end.end()
            yield line
        self._bounded(len(self._buffer) - begin)
        if self._after_return and begin < len(self._buffer):
            self._after_return = False
        del self._buffer[:begin]
        self._searched = len(self._buffer)

    def _past_bom(self) -> bool:
        if self._at_start:
            if _BOM.startswith(self._buffer) and len(self._buffer) < len(_BOM):
                return False
            if self._buffer.startswith(_BOM):
                del self._buffer[: len(_BOM)]
            self._at_start = False
        return True

    def _line(self, line: bytes) -> ServerEvent | None:
        if not line:
            return self._dispatched()
        if line.startswith(b":"):
            return None
        field, _, value = _decoded(line).partition(":")
        value = value.removeprefix(" ")
        match field:
            case "data":
                self._size += len(line)
                self._bounded(self._size)
                self._data.append(value)
            case "event":
                self._bounded_name(value)
                self._name = value
            case "id":
                self._bounded_name(value)
                self._id = self._id if "\0" in value else value
            case "retry":
                self.retry = int(value) / 1000 if re.fullmatch(r"[0-9]{1,9}", value) else self.retry
        return None

    def _dispatched(self) -> ServerEvent | None:
        name, data = self._name, self._data
        self._name, self._data, self._size = "", [], 0
        return ServerEvent(name or "message", "\n".join(data), self._id) if data else None

    def _bounded(self, size: int) -> None:
        if size > self._largest:
            raise TooLarge(f"an event has more than {self._largest:,} bytes")

    def _bounded_name(self, value: str) -> None:
        if len(value) > _LONGEST_NAME:
            raise TooLarge(f"the name or id of an event has more than {_LONGEST_NAME} characters")


def _decoded(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise BrokenStream("a line is not UTF-8") from None
