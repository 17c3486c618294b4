"""What keeps a row true: the smallest derivation of it, one of whose leaves has to change."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator
from dataclasses import dataclass

from upshot.reasons.search import Instance
from upshot.reasons.why import Reasons
from upshot.revise.branch import Avoided, Branch
from upshot.revise.request import Key
from upshot.revise.rules import ground
from upshot.revise.spans import Span, around, point, without
from upshot.revise.tolerance import tolerated
from upshot.revise.world import World
from upshot.rewrite.demand.request_rules import INSERT


@dataclass(frozen=True, slots=True)
class Leaf:
    """A row that a derivation needs to be there, or not to be there."""

    key: Key
    there: bool
    spared: tuple[Span, int | None] | None = None
    """Of an aggregate: the values that would do for the derivation as well, given the leaves before it, and the column
    of the derived row that then has them."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The leaves of a derivation, aggregates last: base rows that are there, rows that are not, aggregates."""

    leaves: tuple[Leaf, ...]


def avoided(world: World, constraints: Collection[str], branch: Branch, about: Key, leaf: Leaf) -> Iterator[Avoided]:
    """The values of an aggregate with which the derivation would stand as well, or that of another witness of the
    constraint, unless that has been there before and may stay."""
    if leaf.spared is None:
        return
    (relation, row), (span, place), (view, (*group, value)) = about, leaf.spared, leaf.key
    if place is not None:
        if relation not in constraints:
            return
        for other in world.column(relation, place):
            key = relation, (*row[:place], other, *row[place + 1 :])
            if other != value and key not in branch.false and world.stored(key):
                span = around(without((span,), point(other)), value)
    yield view, tuple(group), span


def is_to_change(proof: Proof, branch: Branch) -> bool:
    """Whether the branch is to change a leaf already, and has yet to see to it."""
    return any(leaf.key in (branch.false if leaf.there else branch.true) for leaf in proof.leaves)


def undecided(proof: Proof, branch: Branch) -> list[Leaf]:
    """The leaves that the branch has decided nothing about."""
    return [leaf for leaf in proof.leaves if leaf.key not in branch.true and leaf.key not in branch.false]


def proof_of(key: Key, reasons: Reasons, folds: Container[str], kept: Container[Key] = ()) -> Proof | None:
    """The leaves of the smallest derivation of a row of a view; None if it has none. Rows of views that are `kept` are
    leaves as well: they have to be there, whatever they rest on."""
    best = reasons.best(key)
    if best is None:
        return None
    instances: list[Instance] = []
    folded: list[Key] = []
    seen, left = {key}, [key]
    while left:
        each = left.pop()
        if each[0] in folds:
            folded.append(each)
            continue
        instances.append(best[each].instance)
        rows = dict.fromkeys(instances[-1].premises)
        new = [premise for premise in rows if premise not in seen and (premise not in kept or premise[0] in folds)]
        seen.update(new)
        left += new
    leaves = dict.fromkeys(leaf for each in instances for leaf in _leaves(each, reasons, kept, folds))
    leaves |= dict.fromkeys(Leaf(each, there=True) for each in folded[:-1])
    # With all other leaves as they are, the last aggregate is all that the derivation depends on.
    leaves |= dict.fromkeys(Leaf(each, True, tolerated(instances, each, key)) for each in folded[-1:])
    return Proof(tuple(leaves))


def _leaves(instance: Instance, reasons: Reasons, kept: Container[Key], folds: Container[str]) -> Iterator[Leaf]:
    values = instance.rule.values(instance.binding)
    for each in instance.rule.request.one_of:
        key = ground(each.atom, values)
        if each.sign == INSERT:
            # NULL joins with nothing: no row could make a negated literal with it in false.
            if None not in key[1]:
                yield Leaf(key, there=False)
        elif not reasons.is_derived(key) or (key in kept and key[0] not in folds):
            yield Leaf(key, there=True)
