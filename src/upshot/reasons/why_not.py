"""Explain why a row is absent: how near each rule comes to deriving it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from upshot.check.clause.clause_form import is_aggregate
from upshot.check.names.variables import fresh_name, variables
from upshot.check.program import Clause, Literal
from upshot.core.errors import counted
from upshot.core.rows import Rows, one_nan
from upshot.core.schema import Schema
from upshot.reasons.concrete import Row
from upshot.reasons.derivation import Derivation
from upshot.reasons.failure import ATTEMPT, BLOCKED, FALSE, HOLDS, MISSING, OPEN, ROW, Failure
from upshot.reasons.near_misses import Ground, LiteralChoice, choices, grounded, question, whole_row
from upshot.reasons.search import Key, out_of_bounds
from upshot.reasons.why import Reasons
from upshot.reasons.wording import is_given, row_text, rule_text, substituted
from upshot.rewrite.normalize.term_type import term_type
from upshot.syntax.ast import Atom, Comparison, Constant, Not, Variable, Wildcard
from upshot.syntax.printing import print_formula, print_term

EXAMPLES = 3
"""The most examples for which a rule fails by the same literals."""
SORTED = 10_000
"""More values than these are not sorted."""


@dataclass(slots=True)
class WhyNot:
    """The search for near misses in one state of a database."""

    reasons: Reasons
    seen: int = 0

    def failure(self, key: Key, depth: int, above: frozenset[Key] = frozenset()) -> Failure:
        """The near misses of the rules for an absent row; absent premises in views are explained to the given depth,
        except those already being explained."""
        program = self.reasons.program
        relation, row = key
        statement = row_text(program, relation, row)
        if not self.reasons.is_derived(key):
            return Failure(ROW, statement, relation, row, note="does not hold: a base fact that was not inserted")
        attempts: list[Failure] = []
        for clause in dict.fromkeys(c for c in program.clauses if c.head.relation == relation):
            attempts += self._attempts(clause, key, depth, above | {key})
        attempts.sort(key=lambda attempt: attempt.failing)
        failing = attempts[0].failing if attempts else 0
        note = "does not hold" if attempts else "does not hold: no rule has a matching head"
        return Failure(ROW, statement, relation, row, parts=tuple(attempts), failing=failing, note=note)

    def _attempts(self, clause: Clause, key: Key, depth: int, above: frozenset[Key]) -> Iterator[Failure]:
        """The near misses of one rule for the row."""
        program = self.reasons.program
        ground = grounded(clause, program.schemas[key[0]], key[1])
        if ground is None:
            return
        for equal in choices(ground):
            solutions = zip(equal, self._solutions(ground, equal), strict=True)
            found = [(choice, rows) for choice, rows in solutions if len(rows)]
            if found:
                for choice, rows in found:
                    yield from self._examples(ground, choice, rows, depth, above)
                return

    def _solutions(self, ground: Ground, equal: Sequence[LiteralChoice]) -> list[Rows | list[Row]]:
        """The values for which the literals of each choice hold."""
        queries = [
            question([ground.literals[place] for place in choice.kept], choice.names, ground.types, self._schemas)
            for choice in equal
            if choice.kept
        ]
        answers = iter(self.reasons.search.world.answers([(schema, (clause,), {}, {}) for schema, clause in queries]))
        found: list[Rows | list[Row]] = [next(answers) if choice.kept else [()] for choice in equal]
        self._count(sum(map(len, found)))
        return found

    @property
    def _schemas(self) -> Mapping[str, Schema]:
        return self.reasons.program.schemas

    def _count(self, rows: int) -> None:
        self.seen += rows
        if self.seen > self.reasons.search.bounds:
            raise out_of_bounds(self.reasons.search.bounds)

    def _ask(self, body: Sequence[Literal], names: Sequence[str], ground: Ground) -> Rows:
        schema, clause = question(body, names, ground.types, self._schemas)
        rows = self.reasons.search.world.query(schema, clause)
        self._count(len(rows))
        return rows

    def _examples(
        self, ground: Ground, choice: LiteralChoice, rows: Rows | list[Row], depth: int, above: frozenset[Key]
    ) -> Iterator[Failure]:
        listed: Iterable[Row] = rows.sorted() if isinstance(rows, Rows) and len(rows) <= SORTED else rows
        shown = list(islice(listed, EXAMPLES))
        rule = rule_text(ground.clause, self.reasons.program)
        for row in shown:
            values = dict(zip(choice.names, one_nan(row), strict=True))
            parts = tuple(
                self._part(ground, choice, place, values, depth, above) for place in range(len(ground.literals))
            )
            others = len(rows) - len(shown) if row is shown[-1] else 0
            # A literal with an unbound variable counts as failing, although it was not evaluated.
            unseen = sum(part.kind == OPEN for part in parts)
            failed = choice.failing - unseen
            note = f"{failed} of {len(ground.literals)} {'fails' if failed == 1 else 'fail'}"
            note += f", {unseen} not evaluated" * bool(unseen)
            note += f", and so for {counted(others, 'other choice')}" * bool(others)
            yield Failure(
                ATTEMPT, rule.text, rule=rule, parts=parts, failing=choice.failing, count=others,
                note=f"{rule.place}  {note}".strip(),
            )  # fmt: skip

    def _part(
        self,
        ground: Ground,
        choice: LiteralChoice,
        place: int,
        values: dict[str, Any],
        depth: int,
        above: frozenset[Key],
    ) -> Failure:
        """The state of one literal."""
        program = self.reasons.program
        literal = substituted(ground.literals[place], values, ground.types)
        text = print_formula(_shown(literal, program.input_part))
        if place in choice.kept:
            row = whole_row(literal) if isinstance(literal, Atom) else None
            return Failure(HOLDS, text, literal.relation if isinstance(literal, Atom) else None, row)
        if isinstance(literal, Atom):
            if any(name in values and values[name] is None for name in variables(ground.literals[place])):
                # The NULL is a value of another literal; the row itself may be present.
                return Failure(MISSING, text, literal.relation, note="NULL joins with nothing")
            return self._missing(ground, literal, text, depth, above)
        if place in choice.open or any(variables(literal, inside_aggregates=False)):
            return Failure(OPEN, text, note="not evaluated: a variable has no value")
        if isinstance(literal, Not) and isinstance(literal.body, Atom):
            return self._blocked(ground, literal.body, text, depth)
        return Failure(FALSE, text, note=self._actual(ground, literal))

    def _missing(self, ground: Ground, atom: Atom, text: str, depth: int, above: frozenset[Key]) -> Failure:
        row = whole_row(atom)
        if row is None:
            return Failure(MISSING, text, atom.relation, note="no such row")
        key = atom.relation, one_nan(row)
        if is_given(ground.clause, self.reasons.program):
            return Failure(MISSING, text, ground.clause.head.relation, row, note="not given as a fact")
        if not self.reasons.is_derived(key):
            return Failure(MISSING, text, atom.relation, row, note="no such base fact")
        if depth <= 1 or key in above:
            note = "no such row" if depth <= 1 else "no such row, as above"
            return Failure(MISSING, text, atom.relation, row, note=note)
        inner = self.failure(key, depth - 1, above)
        return Failure(MISSING, text, atom.relation, row, parts=inner.parts, failing=inner.failing, note="no such row")

    def _blocked(self, ground: Ground, atom: Atom, text: str, depth: int) -> Failure:
        """A negated literal that does not hold, and a row that blocks it."""
        program = self.reasons.program
        types = dict(ground.types)
        names: list[str] = []
        args: list[Any] = []
        for term, column in zip(atom.args, program.schemas[atom.relation].columns, strict=True):
            if isinstance(term, Wildcard):
                names.append(fresh_name("W", types))
                types[names[-1]] = column.type
                term = Variable(names[-1])
            args.append(term)
        body = (Atom(atom.relation, tuple(args)),)
        found = self._ask(body, names, Ground(ground.clause, (), types))
        row = next(iter(found.sorted() if len(found) <= SORTED else found))
        values = iter(row)
        whole = tuple(next(values) if isinstance(term, Variable) else _value(term) for term in args)
        statement = row_text(program, atom.relation, whole)
        others = f" and {len(found) - 1} more block" if len(found) > 1 else " blocks"
        below: tuple[Derivation, ...] = ()
        key = atom.relation, one_nan(whole)
        if depth > 1 and self.reasons.is_derived(key) and (best := self.reasons.best(key)):
            below = (self.reasons.why(key, best),)
        return Failure(BLOCKED, text, atom.relation, whole, parts=below, note=f"{statement}{others} it")

    def _actual(self, ground: Ground, literal: Any) -> str:
        """The actual value of an aggregate that should have another one."""
        if not is_aggregate(literal):
            return "false"
        assert isinstance(literal, Comparison)
        name = fresh_name("V", {*ground.types, *variables(literal)})
        types = {**ground.types, name: term_type(literal.right, ground.types)}
        body = (Comparison("=", Variable(name), literal.right),)
        found = list(self._ask(body, [name], Ground(ground.clause, (), types)))
        return f"it is {print_term(Constant(found[0][0], types[name]))}" if found else "it has no value"


def _value(term: Any) -> Any:
    assert isinstance(term, Constant), "computed arguments of a negated literal are variables"
    return term.value


def _shown(literal: Any, parts: Any) -> Any:
    """The literal with the view's name for the facts of a view."""
    hidden = {part: view for view, part in parts.items()}
    if isinstance(literal, Atom) and literal.relation in hidden:
        return Atom(hidden[literal.relation], literal.args)
    return literal
