"""Which values make some of a rule's literals hold already."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import combinations, islice

from upshot.check.names.variables import fresh_name, variables
from upshot.check.program import Clause, Literal
from upshot.core.errors import DataError
from upshot.core.schema import Column, Role, Schema
from upshot.core.types import NUMBER
from upshot.reasons.concrete import ASKED, Question
from upshot.revise.built_ins import Binding, determined
from upshot.revise.request import Row
from upshot.revise.rules import RuleParts
from upshot.revise.world import World
from upshot.rewrite.shapes import retyped
from upshot.syntax.ast import Atom, Constant, Variable

Places = tuple[int, ...]

MOST_TOGETHER = 12
"""Questions of one rule that are asked together."""
MOST_CONSIDERED = 200
"""Choices of literals that are looked through for them."""


class Matches:
    """Asks for the values of variables; a question is made once for each rule, choice of literals and set of variables
    whose values are known."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._schemas = schemas
        self._questions: dict[object, tuple[Question, tuple[str, ...], tuple[str, ...]]] = {}

    def find(self, world: World, rule: RuleParts, places: Places, binding: Binding) -> Iterator[Binding]:
        """The bindings that make the positive literals at these places true, and no built-in false, in the state staged
        when the first is asked for."""
        if not places:
            found = determined(rule.built_ins, binding, rule.types)
            if found is not None:
                yield found
            return
        shaped = self._shaped(rule, places, binding)
        if shaped is None:
            return
        question, asked, wanted = shaped
        if not world.is_local:
            self._foresee(world, rule, binding)
        try:
            rows = world.ask(question, [asked])
        except DataError:
            # A literal that is not asked about may guard what is computed: values are tested here.
            plain, *_ = self._shaped(rule, places, binding, tested=False) or (question,)
            rows = world.ask(plain, [asked])
        # Answers of Spark are worked out when they are taken; by then something else may be staged.
        for _, *values in rows.gradually() if world.is_local else list(rows.gradually()):
            found = determined(rule.built_ins, {**binding, **dict(zip(wanted, values, strict=True))}, rule.types)
            if found is not None:
                yield found

    def _shaped(
        self, rule: RuleParts, places: Places, binding: Binding, *, tested: bool = True
    ) -> tuple[Question, Row, tuple[str, ...]] | None:
        """The question, what it is asked with, and the variables it gives values to; None if NULL is to be matched.
        Unless `tested`, the built-ins of the rule are left out."""
        used = {name for place in places for name in variables(rule.positive[place])}
        known = tuple(name for name in binding if name in used)
        if any(binding[name] is None for name in known):
            return None
        shape = rule.number, places, known, tested
        if shape not in self._questions:
            self._questions[shape] = self._question(rule, places, known, tested=tested)
        question, known, wanted = self._questions[shape]
        return question, (0, *(binding[name] for name in known)), wanted

    def _foresee(self, world: World, rule: RuleParts, binding: Binding) -> None:
        """Asks for what is soon asked for, together: other literals of the rule, as long as they hang together with
        what is known, so that the answers are not whole relations."""
        every = range(len(rule.positive))
        chosen = islice((places for size in every for places in combinations(every, size + 1)), MOST_CONSIDERED)
        near = [places for places in chosen if _hangs_together([rule.positive[place] for place in places], binding)]
        shaped = [made for places in near[:MOST_TOGETHER] if (made := self._shaped(rule, places, binding)) is not None]
        world.ask_all([(question, [asked]) for question, asked, _ in shaped])

    def _question(
        self, rule: RuleParts, places: Places, known: Sequence[str], *, tested: bool
    ) -> tuple[Question, tuple[str, ...], tuple[str, ...]]:
        atoms = [rule.positive[place] for place in places]
        bound = {*known, *(name for atom in atoms for name in variables(atom))}
        wanted = tuple(dict.fromkeys(name for atom in atoms for name in variables(atom) if name not in known))
        tests: list[Literal] = [each for each in rule.built_ins if tested and bound.issuperset(variables(each))]
        number = Variable(fresh_name("N", {*rule.types}))
        types = {**rule.types, number.name: NUMBER}
        asked = Schema(
            ASKED, (Column("n", NUMBER), *(Column(f"c{i}", types[name].required()) for i, name in enumerate(known)))
        )
        tag = "_".join(map(str, places))
        name = fresh_name(
            f"matches_{rule.number}_at_{tag}_from_{'_'.join(known)}{'' if tested else '_untested'}", self._schemas
        )
        head = Atom(name, (number, *map(Variable, wanted)))
        body = (Atom(ASKED, (number, *map(Variable, known))), *atoms, *tests)
        clause = retyped(Clause(head, body, types), {**self._schemas, ASKED: asked})
        columns = (Column("n", NUMBER), *(Column(f"v{i}", clause.types[each]) for i, each in enumerate(wanted)))
        return Question(Schema(name, columns, Role.VIEW), clause, asked), tuple(known), wanted


def _hangs_together(atoms: Sequence[Atom], known: Container[str]) -> bool:
    """Whether each atom shares a value with what is known, or with one that does."""
    left, bound = list(atoms), set[str]()
    while left:
        near = [
            atom
            for atom in left
            if not (names := set(variables(atom)))
            or any(name in known or name in bound for name in names)
            or any(isinstance(term, Constant) for term in atom.args)
        ]
        if not near:
            return False
        bound.update(name for atom in near for name in variables(atom))
        left = [atom for atom in left if atom not in near]
    return True
