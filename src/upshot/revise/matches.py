"""Which values make some of a rule's literals hold already."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from upshot.check.program import Clause, Literal
from upshot.check.variables import fresh_name, variables
from upshot.core.schema import Column, Role, Schema
from upshot.core.types import NUMBER
from upshot.reasons.concrete import ASKED, Question
from upshot.revise.built_ins import Binding, determined
from upshot.revise.request import Row
from upshot.revise.rules import RuleParts
from upshot.revise.world import World
from upshot.rewrite.shapes import retyped
from upshot.syntax.ast import Atom, Variable

Places = tuple[int, ...]


class Matches:
    """Asks for the values of variables; a question is made once for each rule, choice of literals and set of variables
    whose values are known."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._schemas = schemas
        self._questions: dict[object, tuple[Question, tuple[str, ...], tuple[str, ...]]] = {}

    def find(self, world: World, rule: RuleParts, places: Places, binding: Binding) -> Iterator[Binding]:
        """The bindings that make the positive literals at these places true, and no built-in false."""
        if not places:
            found = determined(rule.built_ins, binding, rule.types)
            if found is not None:
                yield found
            return
        used = {name for place in places for name in variables(rule.positive[place])}
        known = tuple(name for name in binding if name in used)
        if any(binding[name] is None for name in known):
            return
        shape = rule.number, places, known
        if shape not in self._questions:
            self._questions[shape] = self._question(rule, places, known)
        question, known, wanted = self._questions[shape]
        asked: list[Row] = [(0, *(binding[name] for name in known))]
        for _, *values in world.ask(question, asked).sorted():
            found = determined(rule.built_ins, {**binding, **dict(zip(wanted, values, strict=True))}, rule.types)
            if found is not None:
                yield found

    def _question(
        self, rule: RuleParts, places: Places, known: Sequence[str]
    ) -> tuple[Question, tuple[str, ...], tuple[str, ...]]:
        atoms = [rule.positive[place] for place in places]
        bound = {*known, *(name for atom in atoms for name in variables(atom))}
        wanted = tuple(dict.fromkeys(name for atom in atoms for name in variables(atom) if name not in known))
        tests: list[Literal] = [each for each in rule.built_ins if bound.issuperset(variables(each))]
        number = Variable(fresh_name("N", {*rule.types}))
        types = {**rule.types, number.name: NUMBER}
        asked = Schema(
            ASKED, (Column("n", NUMBER), *(Column(f"c{i}", types[name].required()) for i, name in enumerate(known)))
        )
        tag = "_".join(map(str, places))
        name = fresh_name(f"matches_{rule.number}_at_{tag}_from_{'_'.join(known)}", self._schemas)
        head = Atom(name, (number, *map(Variable, wanted)))
        body = (Atom(ASKED, (number, *map(Variable, known))), *atoms, *tests)
        clause = retyped(Clause(head, body, types), {**self._schemas, ASKED: asked})
        columns = (Column("n", NUMBER), *(Column(f"v{i}", clause.types[each]) for i, each in enumerate(wanted)))
        return Question(Schema(name, columns, Role.VIEW), clause, asked), tuple(known), wanted
