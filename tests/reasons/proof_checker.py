"""Derivations checked against the rules and the naive oracle alone: every step, and which one is smallest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import upshot
from upshot.check.program import CheckedProgram, Clause
from upshot.engine.naive import OracleState, evaluate, names
from upshot.engine.naive_values import canonical
from upshot.syntax.ast import Aggregate, Atom, Comparison, Formula, Not

Row = tuple[Any, ...]
Key = tuple[str, Row]
State = Mapping[str, set[Row]]


def state_of(program: CheckedProgram, base: Mapping[str, Any]) -> dict[str, set[Row]]:
    """The rows of all relations, hidden ones included."""
    relations: dict[str, set[Row]] = {name: set() for name in program.schemas}
    for name, rows in [*base.items(), *program.facts.items()]:
        relations[program.input_part.get(name, name)] |= {tuple(map(canonical, row)) for row in rows}
    return {**relations, **evaluate(program, {name: set(rows) for name, rows in base.items()})}


def numbered(clause: Clause) -> tuple[Formula, ...]:
    """The body, each positive literal over a relation of its own."""
    return tuple(
        Atom(f"{literal.relation}#{place}", literal.args) if isinstance(literal, Atom) else literal
        for place, literal in enumerate(clause.body)
    )


# ---- every step ---------------------------------------------------------------------------------


def check_tree(tree: upshot.Derivation, program: CheckedProgram, state: State) -> None:
    """Every step of the tree is an instance of a rule, every leaf is true, no row rests on itself."""
    for node in tree.nodes:
        if node.kind == "base":
            home = program.input_part.get(node.relation, node.relation)
            assert tuple(map(canonical, node.row)) in state[home], f"{node.statement} is no fact"
            assert not node.premises
        elif node.kind == "rule":
            assert any(is_step(node, clause, program, state) for clause in program.clauses), node.text(depth=1)
            assert node.height == 1 + max((part.height for part in node.premises), default=0)
            assert node.size == 1 + sum(part.size for part in node.premises)
        else:
            assert not node.premises
    check_no_circle(tree)


def check_no_circle(tree: upshot.Derivation) -> None:
    above: list[tuple[upshot.Derivation, frozenset[Key]]] = [(tree, frozenset())]
    while above:
        node, path = above.pop()
        if node.kind == "rule":
            key = node.relation, tuple(map(canonical, node.row))
            assert key not in path, f"{node.statement} rests on itself"
            above += [(part, path | {key}) for part in node.premises]


def is_step(node: upshot.Derivation, clause: Clause, program: CheckedProgram, state: State) -> bool:
    """Whether the clause derives the node's row from just these premises."""
    if clause.head.relation != node.relation or len(clause.body) != len(node.premises):
        return False
    relations = dict(state)
    for place, (literal, part) in enumerate(zip(clause.body, node.premises, strict=True)):
        if part.kind != kind_of(literal, program):
            return False
        if isinstance(literal, Atom):
            if (
                program.input_part.get(part.relation, part.relation)
                != program.input_part.get(literal.relation, literal.relation)
                and literal.relation != part.relation
            ):
                return False
            relations[f"{literal.relation}#{place}"] = {tuple(map(canonical, part.row))}
    world = OracleState(relations, clause.types)
    wanted = tuple(map(canonical, node.row))
    for binding in world.solve(numbered(clause), {}, names(clause.head)):
        if tuple(world.value(term, binding) for term in clause.head.args) == wanted:
            return all(
                part.count == group_size(world, literal, clause, binding)
                for literal, part in zip(clause.body, node.premises, strict=True)
                if part.kind == "aggregate"
            )
    return False


def group_size(world: OracleState, literal: Formula, clause: Clause, binding: dict[str, Any]) -> int:
    assert isinstance(literal, Comparison)
    aggregate = literal.right
    assert isinstance(aggregate, Aggregate)
    scope = names(clause.head).union(*map(names, clause.body))
    return int(world.value(Aggregate("count", None, aggregate.body), binding, scope))


def kind_of(literal: Formula, program: CheckedProgram) -> str:
    match literal:
        case Atom(relation):
            return "rule" if any(clause.head.relation == relation for clause in program.clauses) else "base"
        case Not(Atom()):
            return "absent"
        case Comparison(_, _, Aggregate()):
            return "aggregate"
        case _:
            return "condition"


# ---- the smallest -------------------------------------------------------------------------------


class RecordingWorld(OracleState):
    """Solutions hold the row that each positive literal of the body was matched with."""

    def extend(self, literal: Formula, binding: dict[str, Any], scope: frozenset[str]) -> Iterator[dict[str, Any]]:
        if isinstance(literal, Atom) and "#" in literal.relation:
            for row in self.relations[literal.relation]:
                for longer in self.unify(literal.args, row, binding):
                    yield {**longer, literal.relation: row}
        else:
            yield from super().extend(literal, binding, scope)


@dataclass(frozen=True, slots=True)
class Step:
    head: Key
    premises: tuple[Key, ...]
    leaves: int


def all_steps(program: CheckedProgram, state: State) -> list[Step]:
    """Every instance of every rule."""
    views = {clause.head.relation for clause in program.clauses}
    steps = []
    for clause in dict.fromkeys(program.clauses):
        places = {f"{a.relation}#{i}": a.relation for i, a in enumerate(clause.body) if isinstance(a, Atom)}
        world = RecordingWorld({**state, **{name: state[of] for name, of in places.items()}}, clause.types)
        for binding in world.solve(numbered(clause), {}, names(clause.head)):
            row = tuple(world.value(term, binding) for term in clause.head.args)
            premises = tuple((of, binding[name]) for name, of in places.items() if of in views)
            steps.append(Step((clause.head.relation, row), premises, len(clause.body) - len(premises)))
    return steps


def smallest(steps: list[Step]) -> dict[Key, tuple[int, int]]:
    """Height and nodes of the smallest derivation of every row: the lowest, in each part, then the fewest nodes."""
    found: dict[Key, tuple[int, int]] = {}
    height = 0
    while True:
        height += 1
        newly: dict[Key, tuple[int, int]] = {}
        for step in steps:
            if step.head not in found and all(premise in found for premise in step.premises):
                size = 1 + step.leaves + sum(found[premise][1] for premise in step.premises)
                newly[step.head] = min(newly.get(step.head, (height, size)), (height, size))
        if not newly:
            return found
        found |= newly


def all_derivations(steps: list[Step], root: Key, most: int) -> list[int] | None:
    """The heights of all derivations of a row in which no row rests on itself, sorted; None if there are too many."""
    by_head: dict[Key, list[Step]] = {}
    for step in steps:
        by_head.setdefault(step.head, []).append(step)

    def heights(key: Key, above: frozenset[Key]) -> list[int]:
        found: list[int] = []
        for step in by_head.get(key, ()):
            inside = above | {key}
            if inside & set(step.premises):
                continue
            partial = [0]
            for premise in step.premises:
                each = heights(premise, inside)
                partial = [max(a, b) for a in partial for b in each]
                if len(partial) > most:
                    raise OverflowError
            found += [1 + height for height in partial]
            if len(found) > most:
                raise OverflowError
        return found

    try:
        return sorted(heights(root, frozenset()))
    except OverflowError:
        return None
