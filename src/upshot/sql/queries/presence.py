"""Test whether a relation has a row with certain values, including NULL, which a join would never find."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product, repeat

from upshot.core.types import NUMBER, Type
from upshot.sql.expressions.formulas import FALSE, conjunction, disjunction, is_given, is_null
from upshot.sql.expressions.values import Value, combinations, filler, plain
from upshot.sql.translation import Branch, Translation
from upshot.syntax.ast import Atom, Constant, Formula, Not, Term

MOST_NULLABLE = 8
"""The most columns that can be NULL on both sides: each doubles the number of rules."""


@dataclass(frozen=True, slots=True)
class Presence:
    """A relation for lookups. A `marked` column is stored as two: 1 and a filler if it is NULL, else 0 and the
    value."""

    relation: str
    types: tuple[Type, ...]
    marked: tuple[bool, ...]

    def probe(self, terms: Sequence[Term]) -> tuple[Formula, Formula]:
        """The formulas for the presence and for the absence of a row with these values."""
        found: list[Formula] = []
        missing: list[Formula] = []
        for tests, args in _choices(terms, self.types, self.marked):
            atom = Atom(self.relation, tuple(args))
            found.append(conjunction((*tests, atom)))
            missing.append(conjunction((*tests, Not(atom))))
        return disjunction(found), disjunction(missing)


def presence(
    translation: Translation, purpose: str, names: Sequence[str], branches: Sequence[Branch], nullable: Sequence[bool]
) -> Presence:
    """A view of the rows of the branches, for lookups with values that may be `nullable`. NULL of any other column
    never matches."""
    types = [_type(branch.values[i] for branch in branches) for i in range(len(names))]
    rules = [rule for branch in branches for rule in translation.rules("", branch)]
    can_be_null = translation.nullable_columns(rules, len(names))
    marked = tuple(here and there for here, there in zip(can_be_null, nullable, strict=True))
    if sum(marked) > MOST_NULLABLE:
        translation.statement.unsupported(
            f"a comparison of more than {MOST_NULLABLE} nullable columns",
            help="declare columns NOT NULL, or exclude NULL with IS NOT NULL",
        )
    stored = [each for branch in branches for each in _marked(branch, types, marked)]
    wide_names, wide_types = marked_columns(names, types, marked)
    relation = translation.view(purpose, wide_names, wide_types, stored)
    return Presence(relation, tuple(types), marked)


def marked_columns(names: Sequence[str], types: Sequence[Type], marked: Sequence[bool]) -> tuple[list[str], list[Type]]:
    """The stored columns, with a mark before each marked column."""
    wide: list[tuple[str, Type]] = []
    for name, type, has_mark in zip(names, types, marked, strict=True):
        wide += [(f"{name}_is_null", NUMBER)] * has_mark
        wide.append((name, type))
    return [name for name, _ in wide], [type for _, type in wide]


def _marked(branch: Branch, types: Sequence[Type], marked: Sequence[bool]) -> list[Branch]:
    return [
        Branch((*branch.parts, *when, *tests), tuple(map(plain, args, repeat(None))))
        for when, terms in combinations(branch.values)
        for tests, args in _choices(terms, types, marked)
    ]


def _choices(
    terms: Sequence[Term], types: Sequence[Type], marked: Sequence[bool]
) -> list[tuple[list[Formula], list[Term]]]:
    """For each combination of marked terms that are NULL: its conditions, and the stored values."""
    ways: list[list[tuple[list[Formula], list[Term]]]] = []
    for term, type, has_mark in zip(terms, types, marked, strict=True):
        if has_mark:
            here: tuple[list[Formula], list[Term]] = ([is_given(term)], [Constant(0), term])
            ways.append([here, ([is_null(term)], [Constant(1), filler(type)])])
        else:
            ways.append([([], [term])])
    chosen = [
        ([test for tests, _ in way for test in tests], [arg for _, args in way for arg in args])
        for way in product(*ways)
    ]
    return [(tests, args) for tests, args in chosen if FALSE not in tests]


def _type(values: Iterable[Value]) -> Type:
    return next((value.type for value in values if value.type is not None), NUMBER)
