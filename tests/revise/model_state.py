"""Disjunctive rules and what follows from them: the perfect models, and the perfect model state.

A rule with several heads has branches: in each, one of its heads is true. The models are made stratum by stratum, each
branch a state of its own, and only those are kept that no other undercuts. The model state is the same in the other
normal form: the smallest disjunctions that hold in every model. [Behrend & Manthey 2008, section 2.3]
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from upshot.revise.built_ins import are_same
from upshot.revise.minimal_realizations import minimal, minimal_choices
from upshot.revise.request import Key
from upshot.syntax.ast import Atom, Constant, Not, Term, Variable

Model = frozenset[Key]
Disjunction = frozenset[Key]


@dataclass(frozen=True, slots=True)
class DisjunctiveRule:
    """`heads[0] ∨ heads[1] ∨ … :- body.` over variables and constants; a negated literal is bound by the others."""

    heads: tuple[Atom, ...]
    body: tuple[Atom | Not, ...] = ()


def perfect_models(rules: Sequence[DisjunctiveRule], strata: Sequence[Collection[str]]) -> list[Model]:
    """The perfect models of a stratified program; all heads of a rule are in one stratum."""
    models: list[Model] = [frozenset()]
    for stratum in strata:
        here = [rule for rule in rules if rule.heads[0].relation in stratum]
        models = [grown for model in models for grown in minimal(_closed(model, here))]
    return list(dict.fromkeys(models))


def model_state(models: Collection[Model]) -> set[Disjunction]:
    """The smallest disjunctions that are true in every one of the models."""
    return minimal_choices(models)


def _closed(model: Model, rules: Sequence[DisjunctiveRule]) -> list[Model]:
    """The models that rules of one stratum make of a model of those below; what is negated lies below."""
    done: dict[Model, None] = {}
    left, seen = [model], {model}
    while left:
        branch = left.pop()
        broken = next((heads for rule in rules for heads in _broken(rule, branch)), None)
        if broken is None:
            done[branch] = None
            continue
        for head in broken:
            grown = branch | {head}
            if grown not in seen:
                seen.add(grown)
                left.append(grown)
    return list(done)


def _broken(rule: DisjunctiveRule, model: Model) -> Iterator[list[Key]]:
    """The heads of instances whose body is true and none of whose heads is."""
    for binding in _solutions(rule.body, model):
        heads = [_ground(head, binding) for head in rule.heads]
        if model.isdisjoint(heads):
            yield heads


def _solutions(body: Iterable[Atom | Not], model: Model) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{}]
    for literal in sorted(body, key=lambda each: isinstance(each, Not)):
        if isinstance(literal, Not):
            atom = literal.body
            assert isinstance(atom, Atom)
            found = [binding for binding in found if _ground(atom, binding) not in model]
            continue
        rows = [row for name, row in model if name == literal.relation]
        found = [
            longer for binding in found for row in rows if (longer := _matched(literal.args, row, binding)) is not None
        ]
    return found


def _matched(args: Sequence[Term], row: Sequence[Any], binding: Mapping[str, Any]) -> dict[str, Any] | None:
    longer = dict(binding)
    for term, value in zip(args, row, strict=True):
        if isinstance(term, Constant):
            if not are_same(term.value, value):
                return None
        elif isinstance(term, Variable) and not are_same(longer.setdefault(term.name, value), value):
            return None
    return longer


def _ground(atom: Atom, binding: Mapping[str, Any]) -> Key:
    return atom.relation, tuple(
        term.value if isinstance(term, Constant) else binding[term.name]  # type: ignore[union-attr] # no others
        for term in atom.args
    )
