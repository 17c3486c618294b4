"""Rules for the search: a view that hands on the values of aggregates stands for its rules where it is used.

`overdrawn(A) :- balance(A, S), S < 0` would have a value asked for that nothing but the aggregate can tell; with the
rules of `balance` in its place, the aggregate itself is in the body, and what it has to come to is known.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from upshot.check.names.variables import variables
from upshot.check.program import CheckedProgram, Clause
from upshot.rewrite.normalize.unfold import can_expand, expanded
from upshot.rewrite.shapes import aggregate_of, retyped
from upshot.syntax.ast import Atom, Comparison, Constant, Variable
from upshot.values.aggregates import AGGREGATES
from upshot.values.records import RunningState

Column = tuple[str, int]

FUNCTIONS = tuple(AGGREGATES)
COMPUTED = tuple(name for name, each in AGGREGATES.items() if each.running is not RunningState.EXTREME)
"""Those that come to values which need not be in any row."""

MOST = 64
"""Rules that one rule becomes at most."""


def folded_columns(clauses: Iterable[Clause], functions: Container[str] = FUNCTIONS) -> frozenset[Column]:
    """The columns whose values are those of aggregates, or computed from them; if told, of these functions only."""
    clauses = list(clauses)
    found: set[Column] = set()
    for clause in clauses:
        aggregate = aggregate_of(clause)
        if aggregate is not None and aggregate.function in functions:
            found.add((clause.head.relation, len(clause.head.args) - 1))
    size = -1
    while found and len(found) != size:
        size = len(found)
        for clause in clauses:
            names = folded_names(clause, found)
            for place, term in enumerate(clause.head.args):
                if isinstance(term, Variable) and term.name in names:
                    found.add((clause.head.relation, place))
    return frozenset(found)


def folded_names(clause: Clause, columns: Container[Column]) -> set[str]:
    """The variables of a clause whose values come from these columns, or are computed from such."""
    names = {
        term.name
        for literal in (clause.head, *clause.body)
        if isinstance(literal, Atom)
        for place, term in enumerate(literal.args)
        if isinstance(term, Variable) and (literal.relation, place) in columns
    }
    for literal in clause.body:
        if isinstance(literal, Comparison) and literal.op == "=" and names & {*variables(literal)}:
            names.update(side.name for side in (literal.left, literal.right) if isinstance(side, Variable))
    return names


def unfolded_clauses(clauses: Sequence[Clause], program: CheckedProgram) -> tuple[Clause, ...]:
    """The clauses, with the rules of views that hand on the values of aggregates in place of their uses, where they
    can stand there."""
    columns = folded_columns(clauses)
    folds = {clause.head.relation for clause in clauses if aggregate_of(clause) is not None}
    carrying = {relation for relation, _ in columns} - folds - _recursive(clauses)
    if not carrying:
        return tuple(clauses)
    rules: dict[str, list[Clause]] = {}
    for view in (name for layer in program.strata for name in layer):
        own = [clause for clause in clauses if clause.head.relation == view]
        rules[view] = [made for clause in own for made in _unfolded(clause, columns, carrying, rules, program)]
    return tuple(dict.fromkeys(clause for made in rules.values() for clause in made))


def _unfolded(
    clause: Clause, columns: frozenset[Column], carrying: set[str], rules: dict[str, list[Clause]],
    program: CheckedProgram,
) -> list[Clause]:  # fmt: skip
    done: list[Clause] = []
    left = [clause]
    while left:
        current = left.pop(0)
        place = next((at for at, each in enumerate(current.body) if _asks(each, columns, carrying)), None)
        inside = [] if place is None else rules[current.body[place].relation]  # type: ignore[union-attr]
        fits = place is not None and all(can_expand(current, place, rule) for rule in inside)
        if place is None or not fits or len(done) + len(left) + len(inside) > MOST:
            done.append(current)
        else:
            left += [retyped(expanded(current, place, rule), program.schemas) for rule in inside]
    return done


def _asks(literal: object, columns: frozenset[Column], carrying: set[str]) -> bool:
    """Whether a literal asks a view for the value of an aggregate."""
    return (
        isinstance(literal, Atom)
        and literal.relation in carrying
        and any(not isinstance(t, Constant) and (literal.relation, i) in columns for i, t in enumerate(literal.args))
    )


def _recursive(clauses: Iterable[Clause]) -> set[str]:
    """The views that rest on themselves."""
    uses: dict[str, set[str]] = {}
    for clause in clauses:
        used = {each.relation for each in clause.body if isinstance(each, Atom)}
        uses.setdefault(clause.head.relation, set()).update(used)
    found = set()
    for view in uses:
        seen, left = set(uses[view]), list(uses[view])
        while left:
            new = uses.get(left.pop(), set()) - seen
            seen |= new
            left += new
        if view in seen:
            found.add(view)
    return found
