"""Programs before and after a rewriting, as files, and data to run them on."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.properties.random_programs import Relation, random_row
from tests.properties.settings import case_count, seed_of
from upshot.check import CheckedProgram, check
from upshot.core.errors import ProgramError
from upshot.core.schema import Role
from upshot.rewrite import normal_form
from upshot.syntax import parse

HERE = Path(__file__).parent
Rows = dict[str, set[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class Pair:
    """`NAME.dl` and what the rewriting makes of it, `NAME.expected`."""

    name: str
    before: str
    after: str


def pairs(folder: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Runs a test once for each pair of the folder."""
    found = [
        Pair(path.stem, path.read_text(), path.with_suffix(".expected").read_text())
        for path in sorted((HERE / folder).glob("*.dl"))
    ]
    return pytest.mark.parametrize("pair", found, ids=[pair.name for pair in found])


def checked(text: str) -> CheckedProgram:
    return check(parse(text))


def normal_or_refused(program: CheckedProgram) -> CheckedProgram | None:
    """The normal form; None for a program with an aggregate over values that only its recursion gives."""
    try:
        return normal_form(program)
    except ProgramError as error:
        if {each.slug for each in error.diagnostics} != {"aggregate-in-recursion"}:
            raise
        return None


def random_seeds(suite: str) -> list[int]:
    """The seeds of a suite's random cases: a small part of what the run asks for, since the oracle is slow."""
    return [seed_of(f"rewrites/{suite}", number) for number in range(case_count(50, least=20))]


def random_states(program: CheckedProgram, seed: int, count: int) -> Iterator[Rows]:
    """Some contents of the base relations, each with rows of the one before; one relation in five stays as it was."""
    rng = random.Random(seed)
    base = [
        Relation(schema.name, tuple(map(str, schema.types)))
        for schema in program.schemas.values()
        if schema.role is Role.BASE
    ]
    rows: Rows = {relation.name: set() for relation in base}
    for _ in range(count):
        for relation in base:
            if rng.random() < 0.8:
                kept = {row for row in sorted(rows[relation.name], key=repr) if rng.random() < 0.7}
                rows[relation.name] = kept | {random_row(rng, relation) for _ in range(rng.randint(0, 4))}
        yield {name: set(held) for name, held in rows.items()}
