"""What active rules mean, straight from the definition: whole states are compared, conditions evaluated by the oracle.
Slow on purpose. It shares the parser and the oracle with Upshot, and nothing of its processor or its windows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from upshot.check import check
from upshot.engine.naive import evaluate
from upshot.syntax import parse, print_atom, print_item
from upshot.syntax.ast import (
    ActiveRule,
    Aggregate,
    And,
    Atom,
    Comparison,
    Constant,
    Declaration,
    Deny,
    Formula,
    Not,
    Or,
    Program,
    Rule,
    Term,
    Test,
    Variable,
)

Row = tuple[Any, ...]
State = Mapping[str, frozenset[Row]]
Statement = tuple[str, str, Row]


@dataclass(frozen=True, slots=True)
class Window:
    """Three states: when the rule last had its turn, after what it did then, now."""

    begin: State
    acted: State
    now: State

    def of(self, relation: str) -> tuple[frozenset[Row], frozenset[Row]]:
        """What came and what went. What was undone did neither, but what the rule itself took away can come back."""
        begin, acted, now = self.begin[relation], self.acted[relation], self.now[relation]
        return came(begin, acted, now), begin - acted | (acted - now) - (acted - begin)

    def updated(self, relation: str) -> frozenset[Row]:
        """The rows that went, each with another that came and has the same first column, which is the key."""
        inserted, deleted = self.of(relation)
        return frozenset(old + new for old in deleted for new in inserted if old[:1] == new[:1] and old != new)


def came(begin: frozenset[Row], acted: frozenset[Row], now: frozenset[Row]) -> frozenset[Row]:
    return (acted - begin) & now | now - acted


class Runaway(Exception):
    """More firings than allowed."""


@dataclass(slots=True)
class Outcome:
    base: dict[str, frozenset[Row]]
    firings: list[tuple[str, frozenset[Row]]] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    """Of each firing."""


class Interpreter:
    def __init__(self, text: str, most: int) -> None:
        program = parse(text, "rules")
        self._plain = Program(tuple(item for item in program.items if not isinstance(item, ActiveRule)))
        self._rules = [item for item in program.items if isinstance(item, ActiveRule)]
        self._arity = {item.name: len(item.attributes) for item in program.items if isinstance(item, Declaration)}
        self._views: dict[str, list[Rule]] = {}
        """The rules of views that are not recursive, which a nervous condition looks through."""
        for item in self._plain.items:
            if isinstance(item, Rule) and item.body is not None:
                self._views.setdefault(item.heads[0].relation, []).append(item)
        for view, rules in list(self._views.items()):
            if any(atom.relation == view for rule in rules for atom, _ in _atoms(rule.body)):
                del self._views[view]
        self._checked = check(self._plain)
        self._most = most

    def transaction(self, base: Mapping[str, frozenset[Row]], statements: Sequence[Statement]) -> Outcome:
        """The base relations after the transaction, and who fired for what, in order."""
        outcome = Outcome({name: frozenset(rows) for name, rows in base.items()})
        begin = self._state(outcome.base)
        since = {rule.name: (begin, begin) for rule in self._rules}
        immediate = [rule for rule in self._rules if _option(rule, "coupling", _usual(rule)) == "immediate"]
        deferred = [rule for rule in self._rules if _option(rule, "coupling", _usual(rule)) == "deferred"]
        after = [rule for rule in self._rules if _option(rule, "coupling", _usual(rule)) == "after"]
        for statement in statements:
            _apply(outcome.base, [statement])
            self._process(outcome, _ordered(immediate), since)
        self._process(outcome, [*_ordered(immediate), *_ordered(deferred)], since)
        for rule in _ordered(after):
            now = self._state(outcome.base)
            window = Window(*since[rule.name], now)
            if self._is_triggered(rule, window):
                found = self._instances(rule, window)
                if found:
                    outcome.firings.append((rule.name, found))
                    outcome.windows.append(window)
        return outcome

    def _process(self, outcome: Outcome, rules: Sequence[ActiveRule], since: dict[str, tuple[State, State]]) -> None:
        while True:
            now = self._state(outcome.base)
            windows = {rule.name: Window(*since[rule.name], now) for rule in rules}
            rule = next((rule for rule in rules if self._is_triggered(rule, windows[rule.name])), None)
            if rule is None:
                return
            found = self._instances(rule, windows[rule.name])
            since[rule.name] = (now, now)
            if not found:
                continue
            outcome.firings.append((rule.name, found))
            outcome.windows.append(windows[rule.name])
            if len(outcome.firings) > self._most:
                raise Runaway
            columns = _columns(rule)
            for action in rule.actions:
                if action.kind == "call":
                    continue
                rows = {tuple(_value(arg, columns, row) for arg in action.atom.args) for row in found}
                _apply(outcome.base, [(action.kind, action.atom.relation, row) for row in rows])
            since[rule.name] = (now, self._state(outcome.base))

    def _state(self, base: Mapping[str, frozenset[Row]]) -> State:
        return self._model(tuple(sorted(base.items())))

    @lru_cache(maxsize=4096)  # noqa: B019 - lives as long as the test
    def _model(self, base: tuple[tuple[str, frozenset[Row]], ...]) -> State:
        views = evaluate(self._checked, {name: set(rows) for name, rows in base})
        return {**dict(base), **{name: frozenset(rows) for name, rows in views.items()}}

    # ---- windows --------------------------------------------------------------------------------

    def _is_triggered(self, rule: ActiveRule, window: Window) -> bool:
        changed = {name: window.of(name) for name in window.now if any(window.of(name))}
        if rule.event is not None:
            came, went = changed.get(rule.event.atom.relation, (frozenset(), frozenset()))
            updated = window.updated(rule.event.atom.relation)
            return bool({"insert": came, "delete": went, "update": updated, "change": came | went}[rule.event.kind])
        assert rule.condition is not None
        if _has_states(rule.condition):
            return any(
                window.updated(atom.relation) if atom.state == "updated" else atom.relation in changed
                for atom, _ in _atoms(rule.condition)
            )
        if _option(rule, "semantics", "strict") == "nervous":
            return self._has_changes(rule.condition, changed)
        return bool(self._became_true(rule, window))

    def _has_changes(self, formula: Formula | None, changed: Mapping[str, Any]) -> bool:
        """Whether a literal could become true by the changes, through views too."""
        return any(
            any(self._has_changes(rule.body, changed) for rule in self._views[atom.relation])
            if sign == "+" and atom.relation in self._views
            else (sign != "-" and bool(changed.get(atom.relation, ((), ()))[0]))
            or (sign != "+" and bool(changed.get(atom.relation, ((), ()))[1]))
            for atom, sign in _atoms(formula)
        )

    def _instances(self, rule: ActiveRule, window: Window) -> frozenset[Row]:
        columns, identity = _columns(rule), _identity(rule)
        found = self._answers(rule, columns, window, window.now)
        condition, places = rule.condition, [columns.index(name) for name in identity]
        if condition is None or _has_states(condition):
            return found
        if rule.event is not None:
            if _option(rule, "semantics", "nervous") == "nervous" or not list(_atoms(condition)):
                return found
            held = self._answers(rule, identity, window, window.begin)
            return frozenset(row for row in found if tuple(row[place] for place in places) not in held)
        if _option(rule, "semantics", "strict") == "nervous":
            return found & self._through_a_change(rule, columns, window)
        new = self._became_true(rule, window)
        return frozenset(row for row in found if tuple(row[place] for place in places) in new)

    def _became_true(self, rule: ActiveRule, window: Window) -> frozenset[Row]:
        """What was false when the window began, or after the rule's own action, and is true now."""
        states = (window.begin, window.acted, window.now)
        return came(*(self._answers(rule, _identity(rule), window, state) for state in states))

    def _through_a_change(self, rule: ActiveRule, columns: Sequence[str], window: Window) -> frozenset[Row]:
        """What can be derived with one literal restricted to rows that changed."""
        found: set[Row] = set()
        for place, (atom, sign) in enumerate(_atoms(rule.condition)):
            for state, wanted in self._ways(atom, sign):
                if sign in (wanted, "="):
                    focus = _Focus(place, state, guard=sign == "=", arity=len(atom.args))
                    found |= self._answers(rule, columns, window, window.now, focus)
        return frozenset(found)

    def _ways(self, atom: Atom, sign: str) -> tuple[tuple[str, str], ...]:
        """The rows through which a literal of this sign is read."""
        return (("through" if sign == "+" and atom.relation in self._views else "inserted", "+"), ("deleted", "-"))

    def _rows_through_changes(self, view: str, window: Window) -> frozenset[Row]:
        """What the rules of a view derive with one literal restricted to rows that changed."""
        found: frozenset[Row] = frozenset()
        for rule in self._views[view]:
            head = rule.heads[0]
            columns = [arg.name for arg in head.args if isinstance(arg, Variable)]
            found |= self._through_a_change(ActiveRule(view, head.args, (), None, rule.body), columns, window)
        return found

    def differentials(self, name: str, window: Window) -> dict[str, frozenset[Row]] | None:
        """The instances that each literal of a nervous condition derives through its changed rows, under the signed
        literal; None if the rule has another condition."""
        rule = next(rule for rule in self._rules if rule.name == name)
        nervous = rule.event is None and _option(rule, "semantics", "strict") == "nervous"
        if not nervous or _has_states(rule.condition):
            return None
        found: dict[str, frozenset[Row]] = {}
        for place, (atom, sign) in enumerate(_atoms(rule.condition)):
            for state, wanted in self._ways(atom, sign):
                if sign in (wanted, "="):
                    focus = _Focus(place, state, guard=sign == "=", arity=len(atom.args))
                    text = "±" if sign == "=" else f"{sign}{print_atom(atom)}"
                    rows = self._answers(rule, _columns(rule), window, window.now, focus)
                    found[text] = found.get(text, frozenset()) | rows
        return found

    def _answers(
        self,
        rule: ActiveRule,
        columns: Sequence[str],
        window: Window,
        state: State,
        focus: _Focus | None = None,
    ) -> frozenset[Row]:
        """The bindings of these variables under which event and condition hold, where atoms without a state of their
        own are read in this one."""
        parts: list[Formula] = []
        if rule.event is not None:
            atom = rule.event.atom
            kinds = {"change": ["inserted", "deleted"]}.get(
                rule.event.kind, [f"{rule.event.kind}ed".replace("ee", "e")]
            )
            choices = tuple(replace(atom, relation=f"{atom.relation}__{kind}") for kind in kinds)
            parts.append(choices[0] if len(choices) == 1 else Or(choices))
        if rule.condition is not None:
            parts.append(_renamed(rule.condition, [0], focus))
            if focus is not None and focus.guard:
                relation = list(_atoms(rule.condition))[focus.place][0].relation
                wild = parse(f".deny d() :- r({', '.join('_' * focus.arity)}).", "").items[0]
                assert isinstance(wild, Deny)
                assert isinstance(wild.body, Atom)
                parts.append(replace(wild.body, relation=f"{relation}__{focus.state}"))
        head = Atom("answer", tuple(Variable(name) for name in columns))
        item = Deny(head, And(tuple(parts)) if len(parts) > 1 else parts[0])
        facts: dict[str, set[Row]] = {}
        text = []
        for name, arity in self._arity.items():
            listed = ", ".join(f"c{i}: number" for i in range(arity))
            for suffix in ("", "__old", "__inserted", "__deleted", "__through"):
                text.append(f".decl {name}{suffix}({listed})")
            text.append(f".decl {name}__updated({', '.join(f'c{i}: number' for i in range(2 * arity))})")
            inserted, deleted = window.of(name)
            facts |= {
                name: set(state[name]),
                f"{name}__old": set(window.begin[name]),
                f"{name}__inserted": set(inserted),
                f"{name}__deleted": set(deleted),
                f"{name}__updated": set(window.updated(name)),
            }
        if focus is not None and focus.state == "through":
            view = list(_atoms(rule.condition))[focus.place][0].relation
            facts[f"{view}__through"] = set(self._rows_through_changes(view, window))
        program = check(parse("\n".join([*text, print_item(item)]), "condition"))
        return frozenset(evaluate(program, facts)["answer"])


@dataclass(frozen=True, slots=True)
class _Focus:
    """The literal that is read through the rows that came or went; a `guard` only asks that there are some."""

    place: int
    state: str
    guard: bool
    arity: int


def _renamed(formula: Formula, count: list[int], focus: _Focus | None) -> Formula:
    """With the states of atoms in their names; atoms are counted in the order of `_atoms`."""
    match formula:
        case Atom():
            place, count[0] = count[0], count[0] + 1
            state = formula.state
            if focus is not None and focus.place == place and not focus.guard:
                state = focus.state
            return replace(formula, relation=f"{formula.relation}__{state}" if state else formula.relation, state="")
        case Not(Atom() as body):
            place = count[0]
            if focus is not None and focus.place == place and not focus.guard:
                # A row that left: it is among the deleted ones, and absent now.
                return And((_renamed(body, count, focus), Not(replace(body, state=""))))
            return Not(_renamed(body, count, focus))
        case Not(body):
            return Not(_renamed(body, count, focus))
        case And(parts):
            return And(tuple(_renamed(part, count, focus) for part in parts))
        case Or(parts):
            return Or(tuple(_renamed(part, count, focus) for part in parts))
        case Comparison(op, left, right):
            return Comparison(op, _renamed_term(left, count, focus), _renamed_term(right, count, focus))
        case Test():
            return formula


def _renamed_term(term: Term, count: list[int], focus: _Focus | None) -> Term:
    if isinstance(term, Aggregate):
        return replace(term, body=_renamed(term.body, count, focus))
    return term


def _atoms(formula: Formula | None, sign: str = "+") -> Iterable[tuple[Atom, str]]:
    """Each atom with what of its relation makes the condition true: `+` rows that come, `-` that go, `=` either."""
    match formula:
        case Atom():
            yield formula, sign
        case Not(body):
            yield from _atoms(body, {"+": "-", "-": "+", "=": "="}[sign])
        case And(parts) | Or(parts):
            for part in parts:
                yield from _atoms(part, sign)
        case Comparison(_, left, right):
            for side in (left, right):
                if isinstance(side, Aggregate):
                    yield from _atoms(side.body, "=")


def _has_states(formula: Formula | None) -> bool:
    return any(atom.state for atom, _ in _atoms(formula))


def _columns(rule: ActiveRule) -> list[str]:
    """The variables of an instance: parameters, then what the actions use."""
    named = [arg.name for arg in rule.parameters if isinstance(arg, Variable)]
    used = [arg.name for action in rule.actions for arg in action.atom.args if isinstance(arg, Variable)]
    return list(dict.fromkeys([*named, *used]))


def _identity(rule: ActiveRule) -> list[str]:
    named = [arg.name for arg in rule.parameters if isinstance(arg, Variable)] or _columns(rule)
    atoms = [atom for atom, sign in _atoms(rule.condition) if sign == "+"]
    if rule.event is not None:
        atoms.append(rule.event.atom)
    bound = {arg.name for atom in atoms for arg in atom.args if isinstance(arg, Variable)}
    return [name for name in named if name in bound]


def _value(term: Term, columns: Sequence[str], row: Row) -> Any:
    return term.value if isinstance(term, Constant) else row[columns.index(term.name)]  # type: ignore[union-attr]


def _option(rule: ActiveRule, name: str, usual: str) -> str:
    return dict(rule.options).get(name, usual)


def _usual(rule: ActiveRule) -> str:
    return "after" if all(action.kind == "call" for action in rule.actions) else "deferred"


def _ordered(rules: Sequence[ActiveRule]) -> list[ActiveRule]:
    """Each as soon as all that precede it are there; the highest priority first, then the one written first."""
    left, done = list(rules), []
    while left:
        free = [
            rule
            for rule in left
            if not any(
                other is not rule
                and (_option(rule, "follows", "") == other.name or _option(other, "precedes", "") == rule.name)
                for other in left
            )
        ]
        best = max(free, key=lambda rule: (int(_option(rule, "priority", "0")), -left.index(rule)))
        left.remove(best)
        done.append(best)
    return done


def _apply(base: dict[str, frozenset[Row]], statements: Iterable[Statement]) -> None:
    for kind, relation, row in statements:
        base[relation] = base[relation] | {row} if kind == "insert" else base[relation] - {row}
