"""A demo: a program, its initial data, and transactions with their descriptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

Rows = Sequence[tuple[Any, ...]]
Facts = Mapping[str, Rows]

Fact = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class DeletionRequest:
    """A row that a view must lose, and the base relations that must stay as they are."""

    view: str
    row: tuple[Any, ...]
    frozen: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class StoryTransaction:
    """One transaction: deletions, then insertions, then upserts one by one; or the realization of a request.
    `why`: a row whose derivation is printed after the transaction."""

    title: str
    words: str
    insert: Facts = field(default_factory=dict)
    delete: Facts = field(default_factory=dict)
    upsert: Sequence[Fact] = ()
    revoke: DeletionRequest | None = None
    why: Fact | None = None


@dataclass(frozen=True, slots=True)
class Story:
    """`shows`: the views whose rows are printed, in this order; of other views only the numbers of rows are."""

    name: str
    summary: str
    opening: str
    program: str
    facts: Facts
    steps: Sequence[StoryTransaction]
    shows: Sequence[str]


@dataclass(frozen=True, slots=True)
class DemoEntry:
    """A demo by name. It is built on request, with less data for Spark, where each commit runs jobs."""

    name: str
    summary: str
    build: Callable[[], Story]
    build_for_spark: Callable[[], Story]


def program_text(name: str) -> str:
    """The text of a program that comes with the package."""
    return files("upshot.cli.demo").joinpath(f"{name}.dl").read_text(encoding="utf-8")
