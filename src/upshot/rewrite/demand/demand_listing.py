"""Print demand programs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from upshot.check.names.variables import atoms
from upshot.check.printing import print_checked
from upshot.check.program import CheckedProgram
from upshot.core.precedence import reachable
from upshot.rewrite.changes.change_rules import ABSENT_IN, DERIVED_IN
from upshot.rewrite.demand.demand import INPUTS, DemandProgram, DemandRule, Meaning, RowOrigin, levels
from upshot.rewrite.listing import ListedRule, RuleListing, literals, nothing_listed, printed, relations_of
from upshot.rewrite.shapes import atoms_of, clauses_by_head, relations_read

ANY_TIME = "any time"
"""The phase of a rule without a gate."""

_STATE = {"old": "before the change", "new": "after the change"}
_CHANGES = {"ins": "insertions", "del": "deletions", "plus": "insertions", "minus": "deletions"}
_MOVES = {"plus": "inserted", "minus": "deleted", "ins": "inserted", "del": "deleted"}


def list_demand(demand: DemandProgram, view: str | None = None, *, level: CheckedProgram | None = None) -> RuleListing:
    """The relations, then the rules, each under a comment with its purpose and stage; of one view or of all. With
    `level`, headings show the network level of each view in that program.

    The listing reads like a program, but stages are not part of the language.
    """
    rules = demand.rules if view is None else _about(demand, view)
    if not rules:
        return nothing_listed(view)
    names = {name for rule in rules for name in relations_of(rule.clause)}
    lines = list(_declarations(demand, names))
    if any(rule.gate is not None for rule in rules):
        lines += ["", "// Rules of a stage wait until no other rule has anything to do, the lowest stage first."]
    words = _stateless if all(meaning.origin is not RowOrigin.CHANGE for meaning in demand.relations.values()) else str
    groups: dict[str, list[ListedRule]] = {}
    for rule in _listed(demand, rules, levels(level) if level is not None else {}):
        groups.setdefault(rule.about, []).append(replace(rule, finds=words(rule.finds)))
    for about, members in groups.items():
        lines += ["", f"// ---- {about}"]
        for each in members:
            stage = "" if each.phase == ANY_TIME else f", {each.phase}"
            lines += [f"// {each.name}{stage}: {each.finds}", printed(each)]
    listed = tuple(each for members in groups.values() for each in members)
    relations = tuple(schema for name, schema in demand.schemas.items() if name in names)
    return RuleListing(listed, relations, words("\n".join(lines) + "\n"))


def _listed(demand: DemandProgram, rules: Iterable[DemandRule], depth: dict[str, int]) -> Iterator[ListedRule]:
    gates = sorted({rule.gate for rule in demand.rules if rule.gate is not None})
    stages = {gate: number for number, gate in enumerate(gates, 1)}
    for rule in rules:
        phase = ANY_TIME if rule.gate is None else f"stage {stages[rule.gate]}"
        origin = rule.source.origin if rule.source is not None else None
        about, finds = _heading(rule, demand, depth), _words(rule, demand)
        yield ListedRule(rule.name, about, phase, finds, *literals(rule.clause), origin)


def _stateless(text: str) -> str:
    """The text without states: if nothing changes, there is only one."""
    for words in _STATE.values():
        text = text.replace(f" {words}", "")
    return text


def _declarations(demand: DemandProgram, names: Collection[str]) -> Iterator[str]:
    """The declarations; inputs come first, each with a comment."""
    inputs = [name for name in demand.schemas if name in names and demand.relations[name].origin in INPUTS]
    derived = [name for name in demand.schemas if name in names and name not in inputs]
    for name in (*inputs, *derived):
        declared = print_checked(CheckedProgram({name: demand.schemas[name]}, (), {}, ())).rstrip("\n")
        yield f"{declared}  // {_content(demand.relations[name])}" if name in inputs else declared


def _content(meaning: Meaning) -> str:
    if meaning.origin is RowOrigin.CHANGE:
        return f"the {_CHANGES[meaning.state]} of {meaning.relation}"
    return f"{meaning.relation} {_STATE[meaning.state]}"


def _about(demand: DemandProgram, view: str) -> tuple[DemandRule, ...]:
    """The rules of the view and of its auxiliary views, whose changes are not reported."""
    results = {meaning.relation for meaning in demand.relations.values() if meaning.origin in (RowOrigin.NET, *INPUTS)}
    sources = clauses_by_head(rule.source for rule in demand.rules if rule.source is not None)

    def auxiliaries(name: str) -> set[str]:
        return {read for clause in sources[name] for read in relations_read(clause)} - results

    views = reachable([view], auxiliaries)
    return tuple(rule for rule in demand.rules if _view_of(rule, demand) in views)


def _view_of(rule: DemandRule, demand: DemandProgram) -> str:
    """The view whose changes or rows the rule helps to compute."""
    head = rule.source.head if rule.source is not None else None
    return head.relation if head is not None else demand.relations[rule.clause.head.relation].relation


def _heading(rule: DemandRule, demand: DemandProgram, depth: dict[str, int]) -> str:
    view = _view_of(rule, demand)
    if _is_query(rule, demand):
        return f"queries of {view}"
    return f"changes of {view}" + (f", level {depth[view]}" if view in depth else "")


def _is_query(rule: DemandRule, demand: DemandProgram) -> bool:
    """Test whether the rule answers queries: bindings drive it, or an intermediate result that they lead to."""
    if not rule.clause.body:
        return True
    first = next(iter(_relations_read(rule)), None)
    if first is None:
        return False
    meaning = demand.relations[first]
    if meaning.origin is RowOrigin.BINDINGS or meaning.state.endswith("_groups"):
        return True
    if meaning.origin is not RowOrigin.PART or not meaning.state.startswith(f"{meaning.relation}_sup"):
        return False
    return any(_is_query(other, demand) for other in demand.rules if other.clause.head.relation == first)


def _relations_read(rule: DemandRule) -> Iterator[str]:
    for literal in rule.clause.body:
        for atom in atoms(literal):
            yield atom.relation


def _words(rule: DemandRule, demand: DemandProgram) -> str:
    head = demand.relations[rule.clause.head.relation]
    match head.origin:
        case RowOrigin.BINDINGS:
            state = head.state.split(" ")[0]
            if not rule.clause.body:
                return "the question"
            return f"the rows of {head.relation} {_STATE[state]} that must be known"
        case RowOrigin.ANSWERS:
            return f"{_found(rule, demand)} {head.relation} {_STATE[head.state]}"
        case RowOrigin.NET | RowOrigin.PART:
            return _step(rule, head)
        case _:
            raise AssertionError("inputs have no rules")


def _found(rule: DemandRule, demand: DemandProgram) -> str:
    match rule.name:
        case "Q" | "A":
            return "for the queries, rows of"
        case "K":
            return "already answered for"
        case _:
            first = next(iter(_relations_read(rule)))
            return {"old": "what stays of", "red": "what is derived again of"}.get(
                demand.relations[first].state, "what is inserted into"
            )


def _step(rule: DemandRule, head: Meaning) -> str:
    name, through = rule.name, _through(rule)
    sign = head.state.split("_")[0]
    if name == "S":
        return "an intermediate step"
    if name == "T":
        return "groups that the change affects"
    if name == "G":
        return "requested groups that have rows"
    if name == "R":
        return "deleted, but derivable otherwise"
    if name == "C":
        return f"{_MOVES[sign]}, and not {'deleted' if sign == 'plus' else 'inserted'} as well"
    if name == "V":
        return f"the values of those groups {_STATE[DERIVED_IN[sign]]}"
    if name in ("E", "E1", "E2", "F"):
        return f"{_MOVES[sign]}: not in {head.relation} {_STATE[ABSENT_IN[sign]]}"
    kind = "potential " if name[0] == "P" or head.state.endswith("_candidate") else ""
    return f"{kind}{_CHANGES[sign]} through {through}"


def _through(rule: DemandRule) -> str:
    """The literal of the source whose change drives the rule; its number is part of the rule's name."""
    if rule.source is None or not rule.name[1:].isdigit():
        return ""
    _, atom, negated = list(atoms_of(rule.source))[int(rule.name[1:]) - 1]
    return f"{'!' if negated else ''}{atom.relation}"
