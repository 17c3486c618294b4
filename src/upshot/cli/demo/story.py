"""A story: a program, the data it starts with, and transactions with the words that go with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

Rows = Sequence[tuple[Any, ...]]
Facts = Mapping[str, Rows]


@dataclass(frozen=True, slots=True)
class Step:
    """One transaction: deletions, then insertions, then upserts one by one."""

    title: str
    words: str
    insert: Facts = field(default_factory=dict)
    delete: Facts = field(default_factory=dict)
    upsert: Sequence[tuple[str, tuple[Any, ...]]] = ()


@dataclass(frozen=True, slots=True)
class Story:
    """`shows`: the views whose rows are printed, most telling first; views not named are counted only."""

    name: str
    summary: str
    opening: str
    program: str
    facts: Facts
    steps: Sequence[Step]
    shows: Sequence[str]


@dataclass(frozen=True, slots=True)
class Announced:
    """A story that can be told: building it is left until somebody asks. Spark gets less of it where a commit on all
    of it would try the listener's patience."""

    name: str
    summary: str
    build: Callable[[], Story]
    build_for_spark: Callable[[], Story]


def program_text(name: str) -> str:
    """The text of a program that comes with the package."""
    return files("upshot.cli.demo").joinpath(f"{name}.dl").read_text(encoding="utf-8")
