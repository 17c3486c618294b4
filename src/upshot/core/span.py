"""The place of a part of a program in its text."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Source:
    """A text, and its name in messages (a path, or `<text>`)."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Span:
    """The half-open range `[start, end)` of characters of a source; `within` names the instance of a component that it
    belongs to."""

    source: Source
    start: int
    end: int
    within: str = field(default="", compare=False)

    @property
    def line(self) -> int:
        """The 1-based line of the first character."""
        return self.source.text.count("\n", 0, self.start) + 1

    @property
    def column(self) -> int:
        """The 1-based column of the first character."""
        return self.start - self.source.text.rfind("\n", 0, self.start)

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    def to(self, last: Span) -> Span:
        """The range from the start of this one to the end of `last`."""
        return Span(self.source, self.start, last.end)

    def __repr__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column}"
