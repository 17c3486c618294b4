"""What keeps a row true: the smallest derivation of it, one of whose leaves has to change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from upshot.reasons.search import Instance, used
from upshot.reasons.why import Reasons
from upshot.revise.request import Key
from upshot.revise.rules import ground
from upshot.syntax.ast import Aggregate, Atom, Comparison, Not


@dataclass(frozen=True, slots=True)
class Leaf:
    """A row that a derivation needs to be there, or not to be there."""

    key: Key
    there: bool


@dataclass(frozen=True, slots=True)
class Proof:
    """The leaves of a derivation; `folded` are views of it whose rows are aggregates, which are not looked into."""

    leaves: tuple[Leaf, ...]
    folded: tuple[str, ...] = ()


def proof_of(key: Key, reasons: Reasons) -> Proof | None:
    """The leaves of the smallest derivation of a row of a view; None if it has none."""
    best = reasons.best(key)
    if best is None:
        return None
    leaves: dict[Leaf, None] = {}
    folded: dict[str, None] = {}
    for each in used(best, key):
        instance = best[each].instance
        found = list(_leaves(instance, reasons))
        leaves |= dict.fromkeys(leaf for leaf in found if isinstance(leaf, Leaf))
        folded |= dict.fromkeys(name for name in found if isinstance(name, str))
    return Proof(tuple(leaves), tuple(folded))


def _leaves(instance: Instance, reasons: Reasons) -> Iterator[Leaf | str]:
    values = instance.rule.values(instance.binding)
    for literal, premise in instance.rule.literals:
        match literal:
            case Not(Atom() as atom):
                yield Leaf(ground(atom, values), there=False)
            case Comparison(right=Aggregate()):
                yield instance.head[0]
            case _ if premise is not None and not reasons.is_derived((premise.relation, ())):
                yield Leaf((premise.relation, premise.row(instance.binding)), there=True)
            case _:
                pass
