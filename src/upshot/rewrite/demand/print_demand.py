"""Demand programs as a person reads them."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from upshot.check.names.variables import atoms
from upshot.check.printing import print_checked, print_clause
from upshot.check.program import CheckedProgram
from upshot.rewrite.changes.change_rules import ABSENT_IN, DERIVED_IN
from upshot.rewrite.demand.demand import DemandProgram, DemandRule, Held, Meaning
from upshot.rewrite.strategies.maintenance import atoms_of
from upshot.rewrite.strategies.network import levels

_STATE = {"old": "before the change", "new": "after the change"}
_CHANGES = {"ins": "insertions", "del": "deletions", "plus": "insertions", "minus": "deletions"}
_MOVES = {"plus": "comes", "minus": "goes", "ins": "comes", "del": "goes"}


def print_demand(demand: DemandProgram, view: str | None = None, *, level: CheckedProgram | None = None) -> str:
    """The relations, then the rules, each under a comment that says what it finds and the stage it waits for; of one
    view or of all. `level`: the program whose network levels are told beside the views.

    It reads like a program and is none: what a stage means is not part of the language.
    """
    rules = demand.rules if view is None else _about(demand, view)
    if not rules:
        return f"// no rules for {view}\n" if view else "// no rules\n"
    names = {name for rule in rules for name in _relations(rule)}
    lines = list(_declarations(demand, names))
    stages = {
        gate: number for number, gate in enumerate(sorted({r.gate for r in demand.rules if r.gate is not None}), 1)
    }
    if any(rule.gate is not None for rule in rules):
        lines += ["", "// Rules of a stage wait until no other rule has anything to do, the lowest stage first."]
    depth = levels(level) if level is not None else {}
    groups: dict[str, list[str]] = {}
    for rule in rules:
        stage = "" if rule.gate is None else f", stage {stages[rule.gate]}"
        group = groups.setdefault(_heading(rule, demand, depth), [])
        group += [f"// {rule.name}{stage}: {_words(rule, demand)}", print_clause(rule.clause)]
    for about, printed in groups.items():
        lines += ["", f"// ---- {about}", *printed]
    text = "\n".join(lines) + "\n"
    return text if any(meaning.held is Held.CHANGE for meaning in demand.relations.values()) else _timeless(text)


def _timeless(text: str) -> str:
    """Where nothing changes there is one state."""
    for words in _STATE.values():
        text = text.replace(f" {words}", "")
    return text


def _relations(rule: DemandRule) -> Iterator[str]:
    yield rule.clause.head.relation
    for literal in rule.clause.body:
        for atom in atoms(literal):
            yield atom.relation


def _declarations(demand: DemandProgram, names: Collection[str]) -> Iterator[str]:
    """What is given first, each with what it holds."""
    given = [name for name in demand.schemas if name in names and demand.relations[name].held in _GIVEN]
    made = [name for name in demand.schemas if name in names and name not in given]
    for name in (*given, *made):
        declared = print_checked(CheckedProgram({name: demand.schemas[name]}, (), {}, ())).rstrip("\n")
        yield f"{declared}  // {_holds(demand.relations[name])}" if name in given else declared


def _holds(meaning: Meaning) -> str:
    if meaning.held is Held.CHANGE:
        return f"the {_CHANGES[meaning.state]} of {meaning.relation}"
    return f"{meaning.relation} {_STATE[meaning.state]}"


def _about(demand: DemandProgram, view: str) -> tuple[DemandRule, ...]:
    """The rules of the view, and of the views that were put in for it."""
    wanted, grown = {view}, True
    results = {meaning.relation for meaning in demand.relations.values() if meaning.held in (Held.NET, *_GIVEN)}
    while grown:
        read = {
            atom.relation
            for rule in demand.rules
            if rule.source is not None and rule.source.head.relation in wanted
            for _, atom, _ in atoms_of(rule.source)
        }
        found = {name for name in read if name not in results} - wanted
        wanted |= found
        grown = bool(found)
    return tuple(rule for rule in demand.rules if _view_of(rule, demand) in wanted)


def _view_of(rule: DemandRule, demand: DemandProgram) -> str:
    """The view that the rule works for."""
    return (
        rule.source.head.relation if rule.source is not None else demand.relations[rule.clause.head.relation].relation
    )


def _heading(rule: DemandRule, demand: DemandProgram, depth: dict[str, int]) -> str:
    view = _view_of(rule, demand)
    if _is_query(rule, demand):
        return f"what is asked of {view}"
    return f"changes of {view}" + (f", level {depth[view]}" if view in depth else "")


def _is_query(rule: DemandRule, demand: DemandProgram) -> bool:
    """Whether the rule answers questions: it is driven by what was asked for, or by a step from there."""
    if not rule.clause.body:
        return True
    first = next(iter(_relations_read(rule)), None)
    if first is None:
        return False
    meaning = demand.relations[first]
    if meaning.held is Held.ASKED or meaning.state.endswith("_groups"):
        return True
    if meaning.held is not Held.PART or not meaning.state.startswith(f"{meaning.relation}_sup"):
        return False
    return any(_is_query(other, demand) for other in demand.rules if other.clause.head.relation == first)


def _relations_read(rule: DemandRule) -> Iterator[str]:
    for literal in rule.clause.body:
        for atom in atoms(literal):
            yield atom.relation


def _words(rule: DemandRule, demand: DemandProgram) -> str:
    head = demand.relations[rule.clause.head.relation]
    match head.held:
        case Held.ASKED:
            state = head.state.split(" ")[0]
            if not rule.clause.body:
                return "the question"
            return f"the rows of {head.relation} {_STATE[state]} that must be known"
        case Held.ANSWERS:
            return f"{_found(rule, demand)} {head.relation} {_STATE[head.state]}"
        case Held.NET | Held.PART:
            return _step(rule, demand, head)
        case _:
            raise AssertionError("no rule gives what is given")


def _found(rule: DemandRule, demand: DemandProgram) -> str:
    match rule.name:
        case "Q" | "A":
            return "for what was asked, rows of"
        case "K":
            return "no need to ask again for these of"
        case _:
            first = next(iter(_relations_read(rule)))
            return {"old": "what stays of", "red": "what is derived again of"}.get(
                demand.relations[first].state, "what comes to"
            )


def _step(rule: DemandRule, demand: DemandProgram, head: Meaning) -> str:
    name, through = rule.name, _through(rule)
    sign = head.state.split("_")[0]
    if name == "S":
        return "a step on the way"
    if name == "T":
        return "groups that the change touches"
    if name == "G":
        return "groups that were asked for and have rows"
    if name == "R":
        return "deleted, but derivable otherwise"
    if name == "C":
        return f"what {_MOVES[sign]} and does not {'go' if sign == 'plus' else 'come'} as well"
    if name == "V":
        return f"the values of those groups {_STATE[DERIVED_IN[sign]]}"
    if name in ("E", "E1", "E2", "F"):
        return f"what {_MOVES[sign]}: not in {head.relation} {_STATE[ABSENT_IN[sign]]}"
    kind = "potential " if name[0] == "P" or head.state.endswith("_candidate") else ""
    return f"{kind}{_CHANGES[sign]} through {through}"


def _through(rule: DemandRule) -> str:
    """The literal of the source whose change drives the rule, from the number in the rule's name."""
    if rule.source is None or not rule.name[1:].isdigit():
        return ""
    _, atom, negated = list(atoms_of(rule.source))[int(rule.name[1:]) - 1]
    return f"{'!' if negated else ''}{atom.relation}"


_GIVEN = (Held.STORED, Held.CHANGE)
