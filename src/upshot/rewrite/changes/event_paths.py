"""Event-path analysis: which changes of which relations can lead to a change that somebody listens to.
[Harrison & Dietrich 1994, section 5]"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from upshot.check.program import CheckedProgram
from upshot.rewrite.changes.change_rules import OPPOSITE
from upshot.rewrite.shapes import aggregate_of
from upshot.rewrite.strategies.maintenance import atoms_of

SIGNS = ("plus", "minus")
Event = tuple[str, str]


def event_paths(
    program: CheckedProgram,
    strategies: Mapping[str, str],
    wanted: Mapping[str, Collection[str]],
    nervous: Collection[str] = (),
) -> frozenset[Event]:
    """The relations and signs (`plus`, `minus`) from which a path leads to a wanted one.

    A sign turns at every negation. It is both signs of all that is read where the values of a group are folded, and
    where a new state is made of an old one and its changes (`rod`): what is read there is no event but a state.
    """
    layer_of = {view: layer for layer in program.strata for view in layer}
    found: set[Event] = set()
    waiting = [(view, sign) for view, signs in wanted.items() for sign in signs]
    while waiting:
        event = waiting.pop()
        if event in found:
            continue
        found.add(event)
        view, sign = event
        if view in strategies:
            layer = layer_of[view] if strategies[view] == "rod" else (view,)
            waiting += _below(program, layer, sign, both=strategies[view] == "rod" or view in nervous)
    return frozenset(found)


def _below(program: CheckedProgram, layer: Collection[str], sign: str, *, both: bool) -> Iterator[Event]:
    if both:
        yield from ((view, each) for view in layer for each in SIGNS)
    for clause in program.clauses:
        if clause.head.relation in layer:
            for _, atom, negated in atoms_of(clause):
                if both or aggregate_of(clause) is not None:
                    yield from ((atom.relation, each) for each in SIGNS)
                else:
                    yield atom.relation, OPPOSITE[sign] if negated else sign
