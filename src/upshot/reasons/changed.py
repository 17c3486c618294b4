"""Explain why a row was inserted or deleted: the derivation gained or lost, down to the base changes.

For an inserted row, the smallest derivation in the new state; for a deleted row, in the old state. Parts that did not
change are only named. A negated literal reverses the sign: it became true because a row was deleted, and false because
one was inserted; so does an aggregate, for the solutions that it lost or gained.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from upshot.check.names.variables import fresh_name
from upshot.check.program import CheckedProgram
from upshot.core.errors import counted
from upshot.core.rows import one_nan
from upshot.core.schema import Schema
from upshot.reasons.concrete import (
    AggregateGroup,
    ConcreteRule,
    Row,
    asked_rows,
    groups_of,
    instances_question,
    row_rule,
    row_shapes,
)
from upshot.reasons.derivation import ABSENT, AGGREGATE, Derivation, Moment, without_meta
from upshot.reasons.near_misses import question
from upshot.reasons.search import Best, DerivationSearch, Key, QueryState, RuleInstance, used
from upshot.reasons.why import Reasons
from upshot.reasons.wording import substituted
from upshot.syntax.ast import Aggregate, Atom, Comparison, Constant, Not, Term, Variable, Wildcard

CAME, WENT = "came", "went"
_WORDS = {CAME: "inserted", WENT: "deleted"}
SHOWN = 3


@dataclass(slots=True)
class Changed:
    """The two states around a version."""

    program: CheckedProgram
    after: Reasons
    before: Reasons
    moment: Moment
    deltas: Mapping[str, tuple[Collection[Row], Collection[Row]]] = field(default_factory=dict)
    """Relations whose inserted and deleted rows are known."""
    shown: int = SHOWN
    """The most rows that block a negated literal, and solutions of a group, that are explained."""
    _derivations: dict[tuple[Key, str], Derivation] = field(default_factory=dict)
    _membership: dict[str, ConcreteRule] = field(default_factory=dict)
    _solved: dict[tuple[int, int, int], ConcreteRule] = field(default_factory=dict)

    def status(self, key: Key) -> str:
        """The effect of the version on a row: `came`, `went`, or nothing."""
        before, after = self._is_in(self.before, [key]), self._is_in(self.after, [key])
        return CAME if after and not before else WENT if before and not after else ""

    def derivations(self, keys: Iterable[Key], change: str) -> dict[Key, Derivation]:
        """The changed part of a derivation of each of these inserted or deleted rows: the lowest one over unchanged
        rows, however those are derived. All are found together, from changed row to changed row."""
        here, there = self._states(change)
        unknown = [key for key in keys if key[0] not in self.deltas]
        changed = {*keys} - {*unknown} | self._is_in(here, unknown) - self._is_in(there, unknown)
        search = DerivationSearch(
            here.search.world, here.search.rules, self.program.schemas, sys.maxsize,
            underived=lambda premises: self._staying(premises, change),
        )  # fmt: skip
        best = search.best_of(key for key in changed if here.is_derived(key))
        self._build(best, set(best), change)
        return {key: self.derivation(key, change) for key in keys if key in changed}

    def derivation(self, key: Key, change: str) -> Derivation:
        """The changed part of the derivation of an inserted or deleted row."""
        if (key, change) in self._derivations:
            return self._derivations[key, change]
        here, _ = self._states(change)
        if not here.is_derived(key):
            made = replace(here.trees.base(key), change=change)
            found = replace(made, inserted=self.moment) if change == CAME else replace(made, deleted=self.moment)
            self._derivations[key, change] = found
            return found
        best = here.best(key)
        assert best is not None, "a row that is in a state has a derivation there"
        rows = list(used(best, key))
        self._build(best, {*rows} - self._staying(rows, change), change)
        return self._derivations[key, change]

    def _build(self, best: Mapping[Key, Best], changed: set[Key], change: str) -> None:
        """Build the derivations of changed rows, premises first."""
        here, _ = self._states(change)
        here.trees.prepare(best[each].instance for each in changed)
        for each in sorted(changed, key=lambda row: best[row].height):
            if (each, change) not in self._derivations:
                self._derivations[each, change] = self._step(best[each].instance, change, changed)

    def _states(self, change: str) -> tuple[Reasons, Reasons]:
        """The state that the row is in, and the other one."""
        return (self.after, self.before) if change == CAME else (self.before, self.after)

    def _step(self, instance: RuleInstance, change: str, changed: set[Key]) -> Derivation:
        """One step of a derivation; those of its changed premises are already built."""
        here, _ = self._states(change)
        parts: list[Derivation] = []
        facts = [
            None if premise is None else (premise.relation, one_nan(premise.row(instance.binding)))
            for _, premise in instance.rule.literals
        ]
        base = [key for key in facts if key is not None and not here.is_derived(key)]
        stays = self._staying(base, change)
        for place, key in enumerate(facts):
            if key is None:
                parts.append(self._condition(instance, place, change))
            elif key in changed:
                parts.append(self._derivations[key, change])
            elif key in base and key not in stays:
                parts.append(self.derivation(key, change))
            else:
                remark = "already true" if change == CAME else "still true"
                parts.append(replace(here.trees.base(key), kind=_kind(here, key), remark=remark))
        if not any(part.change for part in parts):
            parts += self._better(instance.head, change)
        whole = here.trees.derivation(instance, [_PLACEHOLDER for _ in instance.rule.derived])
        return replace(
            whole, premises=tuple(parts), change=change,
            height=1 + max((part.height for part in parts), default=0), size=1 + sum(part.size for part in parts),
        )  # fmt: skip

    def _better(self, key: Key, change: str) -> list[Derivation]:
        """The better row that the group of a best value has in the other state, where all premises of the row are
        present too. Its own derivation changed: recursion only improves best values."""
        relation, row = key
        lattice = self.program.schemas[relation].lattice
        if lattice is None:
            return []
        names = [f"X{place}" for place in range(len(row))]
        args = tuple(Wildcard() if place == lattice.column else Variable(name) for place, name in enumerate(names))
        types = dict(zip(names, self.program.schemas[relation].types, strict=True))
        _, there = self._states(change)
        values = dict(zip(names, row, strict=True))
        rows = matching(there.search.world, Atom(relation, args), values, types, self.program.schemas)
        return self._below([(relation, each) for each in rows], WENT if change == CAME else CAME)

    def _condition(self, instance: RuleInstance, place: int, change: str) -> Derivation:
        """A literal without a row: negated, an aggregate, or a condition, which changes only with the others."""
        here, _ = self._states(change)
        literal, _ = instance.rule.literals[place]
        plain = here.trees.part(instance, place, iter(()))
        if isinstance(literal, Not) and isinstance(literal.body, Atom):
            return self._negated(plain, instance, literal.body, change)
        if isinstance(literal, Comparison) and isinstance(literal.right, Aggregate):
            return self._folded(plain, instance, place, literal.right, change)
        return plain

    def _negated(self, plain: Derivation, instance: RuleInstance, atom: Atom, change: str) -> Derivation:
        """No row matches in this state; those that match in the other state were deleted, or inserted."""
        _, there = self._states(change)
        values = instance.rule.values(instance.binding)
        rows = matching(there.search.world, atom, values, instance.rule.types, self.program.schemas)
        if not rows:
            return plain
        other = WENT if change == CAME else CAME
        below = tuple(self._below([(atom.relation, row) for row in rows[: self.shown]], other))
        more = f", {len(rows) - self.shown} of them not shown" * (len(rows) > self.shown)
        words = f"{counted(len(rows), 'row')} {_WORDS[other]}{more}"
        height, size = max(part.height for part in below), 1 + sum(part.size for part in below)
        return replace(plain, kind=ABSENT, premises=below, change=change, remark=words, height=height, size=size)

    def _folded(
        self, plain: Derivation, instance: RuleInstance, place: int, aggregate: Aggregate, change: str
    ) -> Derivation:
        """The solutions that the group has in only one of the states, and the changes of their rows."""
        here, there = self._states(change)
        groups = self._groups(here, instance, place, aggregate)
        mine = _solutions(here, groups, instance)
        others = _solutions(there, self._groups(there, instance, place, aggregate), instance)
        gained, lost = sorted(mine - others, key=repr), sorted(others - mine, key=repr)
        if not gained and not lost:
            return plain
        below: list[Derivation] = []
        rules = [self._solution_rule(instance.rule, place, part, group) for part, group in enumerate(groups)]
        for solutions, sign in ((gained, change), (lost, WENT if change == CAME else CAME)):
            some = [RuleInstance(instance.head, rules[part], each, ()) for part, each in solutions[: self.shown]]
            below += self._changed_parts(some, sign)
        came, went = (gained, lost) if change == CAME else (lost, gained)
        counts = [f"{len(rows)} {_WORDS[each]}" for rows, each in ((came, CAME), (went, WENT)) if rows]
        words = f"{plain.note}; {', '.join(counts)}"
        height = max((part.height for part in below), default=0)
        parts = tuple({(part.statement, part.change): part for part in below}.values())
        size = 1 + sum(part.size for part in parts)
        return replace(plain, kind=AGGREGATE, premises=parts, change=change, remark=words, height=height, size=size)

    def _groups(
        self, state: Reasons, instance: RuleInstance, place: int, aggregate: Aggregate
    ) -> tuple[AggregateGroup, ...]:
        return groups_of(instance.rule, aggregate, place, self.program.schemas, f"changed_{state.search.world.tag}")

    def _solution_rule(self, rule: ConcreteRule, place: int, part: int, group: AggregateGroup) -> ConcreteRule:
        """The rule whose instances are solutions of an alternative of an aggregate, with a number of its own."""
        if (rule.number, place, part) not in self._solved:
            self._solved[rule.number, place, part] = group.rule(_FIRST_OF_GROUPS + len(self._solved))
        return self._solved[rule.number, place, part]

    def _changed_parts(self, solutions: Sequence[RuleInstance], change: str) -> list[Derivation]:
        """The changes of solutions that a group has in one state only: rows, and other literals."""
        here, _ = self._states(change)
        here.trees.prepare(solutions)
        keys = [
            [
                None if premise is None else (premise.relation, one_nan(premise.row(solution.binding)))
                for _, premise in solution.rule.literals
            ]
            for solution in solutions
        ]
        rows = [key for some in keys for key in some if key is not None]
        stays = self._staying(rows, change)
        changed = [key for key in dict.fromkeys(rows) if key not in stays]
        built = dict(zip(changed, self._below(changed, change), strict=True))
        found: list[Derivation] = []
        for solution, some in zip(solutions, keys, strict=True):
            for place, key in enumerate(some):
                part = self._condition(solution, place, change) if key is None else built.get(key)
                if part is not None and part.change:
                    found.append(part)
        return found

    def _below(self, keys: Sequence[Key], change: str) -> list[Derivation]:
        """The changed parts of derivations of rows below a group or a negated literal."""
        if self.deltas:
            self.derivations(keys, change)
        return [self.derivation(key, change) for key in keys]

    def _staying(self, keys: Sequence[Key], change: str) -> set[Key]:
        """The rows among these, present in one state, that are also present in the other one."""
        _, there = self._states(change)
        place = (CAME, WENT).index(change)
        known = [key for key in keys if key[0] in self.deltas]
        stays = {(relation, row) for relation, row in known if row not in self.deltas[relation][place]}
        return stays | self._is_in(there, [key for key in keys if key[0] not in self.deltas])

    def _is_in(self, state: Reasons, keys: Sequence[Key]) -> set[Key]:
        """The rows among these that are present in a state."""
        shapes = row_shapes(dict.fromkeys(keys))
        found: set[Key] = set()
        questions = []
        for (relation, nulls), rows in shapes.items():
            question = instances_question(self._rows_of(relation), nulls, self.program.schemas, state.search.world.tag)
            assert question is not None, "its arguments are variables"
            questions.append((question, asked_rows(rows, nulls)))
        answers = state.search.world.ask_all(questions)
        for ((relation, _), rows), some in zip(shapes.items(), answers, strict=True):
            found.update((relation, rows[number]) for number, *_ in some)
        return found

    def _rows_of(self, relation: str) -> ConcreteRule:
        if relation not in self._membership:
            number = len(self.program.clauses) + list(self.program.schemas).index(relation)
            self._membership[relation] = row_rule(number, relation, self.program.schemas)
        return self._membership[relation]


_FIRST_OF_GROUPS = 10**6
"""Rules for solutions of groups are numbered from here, after all clauses and relations."""

_PLACEHOLDER = Derivation(ABSENT, "")


def _solutions(state: Reasons, groups: Sequence[AggregateGroup], instance: RuleInstance) -> set[tuple[int, Row]]:
    """The solutions of each alternative, with its number."""
    values = instance.rule.values(instance.binding)
    return {
        (part, one_nan(tuple(row[1:])))
        for part, group in enumerate(groups)
        for row in state.search.world.ask(group.question, [(0, *(values[name] for name in group.shared))])
    }


def _kind(state: Reasons, key: Key) -> str:
    return "rule" if state.is_derived(key) else "base"


def matching(
    world: QueryState, atom: Atom, values: Mapping[str, Any], types: Mapping[str, Any], schemas: Mapping[str, Schema]
) -> list[Row]:
    """The rows that match an atom with these values for its variables, in order."""
    ground = substituted(atom, values, types)
    assert isinstance(ground, Atom)
    known = dict(types)
    names: list[str] = []
    args: list[Term] = []
    equations: list[Any] = []
    for term, column in zip(ground.args, schemas[atom.relation].columns, strict=True):
        if isinstance(term, Constant):
            args.append(term)
            continue
        name = fresh_name("W", known)
        known[name] = column.type
        names.append(name)
        args.append(Variable(name))
        if not isinstance(term, Wildcard):
            equations.append(Comparison("=", Variable(name), term))
    schema, clause = question((Atom(atom.relation, tuple(args)), *equations), names, known, schemas)
    found = []
    for row in world.query(schema, clause).sorted():
        values_of_row = iter(row)
        whole = (term.value if isinstance(term, Constant) else next(values_of_row) for term in args)
        found.append(one_nan(tuple(whole)))
    return found


@dataclass(frozen=True, slots=True, eq=False)
class RowChange:
    """A row that a version inserted (`came`) or deleted (`went`), and the `derivation` that it gained or lost."""

    change: str
    moment: Moment
    derivation: Derivation

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<{self.derivation.statement} {_WORDS[self.change]} in version {self.moment.version}>"

    def _repr_svg_(self) -> str:
        return self.svg()

    def without_meta(self) -> RowChange:
        """The same without the `meta` of the transaction."""
        return RowChange(self.change, replace(self.moment, meta={}), without_meta(self.derivation))

    def text(self, *, depth: int | None = None) -> str:
        """The change and the derivation as indented text; `+` and `-` mark insertions and deletions."""
        return f"{self._heading}\n{self.derivation.text(depth=depth)}"

    def json(self) -> str:
        head = json.dumps({"change": self.change, **self.moment.as_dict()}, ensure_ascii=False)
        return f'{head[:-1]}, "derivation": {self.derivation.json()}}}'

    def as_dict(self) -> dict[str, Any]:
        return {"change": self.change, **self.moment.as_dict(), "derivation": self.derivation.as_dict()}

    def svg(self) -> str:
        return self.derivation.svg(self._heading)

    @property
    def _heading(self) -> str:
        return f"{self.derivation.statement} {_WORDS[self.change]} in {self.moment}"
