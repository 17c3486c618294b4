"""What keys say about the variables of a rule: where a row must be there in the end, no other with its key is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from upshot.revise.branch import Branch
from upshot.revise.built_ins import Binding, determined
from upshot.revise.new_values import NewValues
from upshot.revise.request import Key, Row
from upshot.revise.rules import RuleParts, Rules
from upshot.revise.term_values import UNKNOWN
from upshot.syntax.ast import Atom, Constant, Term, Variable

Places = tuple[int, ...]
"""The columns of a key."""


@dataclass(slots=True)
class KeyedRows:
    """Finds the rows that must be there by their keys. Every realisation keeps the keys, so none that a branch leads to
    has another row with the key of one that the branch wants: a literal with that key is about this row."""

    rules: Rules
    new_values: NewValues
    _literals: dict[int, list[tuple[Atom, Places]]] = field(default_factory=dict)
    _true: frozenset[Key] = frozenset()
    _by_key: dict[tuple[str, Places, Row], Row] = field(default_factory=dict)

    def determined(self, branch: Branch, rule: RuleParts, binding: Binding) -> Binding | None:
        """The binding with all values that keys give to the variables of a rule, and what follows; None if there is no
        such instance. Where that is so because of new values, others are to be tried."""
        known, left = binding, list(self.literals(rule))
        moved = bool(left)
        while moved:
            moved = False
            for atom, row in [*self._found(branch, left, known)]:
                given = _joined(atom, row, known)
                longer = None if given is None else determined(rule.built_ins, given, rule.types)
                if longer is None or len(longer) > len(known):
                    # Where the row is another than the one that values ask for, they would have to be its own.
                    met = given or {**known, **_given(atom, row)}
                    self._note(branch, rule, met, (atom.relation, row))
                if longer is None:
                    self._note_conflict(branch, (atom.relation, row))
                    return None
                left = [each for each in left if each[0] is not atom]
                known, moved = longer, True
        return known

    def refuted(self, branch: Branch) -> Key | None:
        """A row of a view that the branch wants and that no rule can derive together with other rows that it wants."""
        for key in branch.true:
            if key not in branch.support and key[0] not in self.rules.folds:
                rules = self.rules.by_view.get(key[0], ())
                if any(map(self.literals, rules)) and not any(self._could_derive(rule, branch, key) for rule in rules):
                    return key
        return None

    def _could_derive(self, rule: RuleParts, branch: Branch, key: Key) -> bool:
        head = rule.binding(key[1])
        known = None if head is None else determined(rule.built_ins, head, rule.types)
        return known is not None and self.determined(branch, rule, known) is not None

    def literals(self, rule: RuleParts) -> list[tuple[Atom, Places]]:
        """The literals of a rule over relations with keys, and those keys."""
        if rule.number not in self._literals:
            schemas = self.rules.program.schemas
            self._literals[rule.number] = [
                (atom, key) for atom in rule.positive for key in schemas[atom.relation].keys
            ]  # fmt: skip
        return self._literals[rule.number]

    def wanted(self, branch: Branch, rule: RuleParts) -> frozenset[Key]:
        """The rows that a branch wants which may say something about the variables of a rule."""
        relations = {atom.relation for atom, _ in self.literals(rule)}
        return frozenset(key for key in branch.true if key[0] in relations) if relations else frozenset()

    def _found(
        self, branch: Branch, literals: list[tuple[Atom, Places]], binding: Binding
    ) -> Iterator[tuple[Atom, Row]]:
        """The literals whose keys have values, with the rows of these keys that the branch wants."""
        for atom, key in literals:
            values = tuple(_value(atom.args[place], binding) for place in key)
            # Whether NULL is equal to NULL in a key is left to the engine.
            if UNKNOWN not in values and None not in values:
                row = self._rows(branch).get((atom.relation, key, values))
                if row is not None:
                    yield atom, row

    def _rows(self, branch: Branch) -> dict[tuple[str, Places, Row], Row]:
        if branch.true is not self._true:
            schemas = self.rules.program.schemas
            self._true = branch.true
            self._by_key = {
                (name, key, tuple(row[place] for place in key)): row
                for name, row in branch.true for key in schemas[name].keys
            }  # fmt: skip
        return self._by_key

    def _note_conflict(self, branch: Branch, key: Key) -> None:
        """Notes that a row is needed beside one with its key."""
        if {each.witness for each in branch.placeholders}.isdisjoint(key[1]):
            self.new_values.limits.keyed[key] = None

    def _note(self, branch: Branch, rule: RuleParts, binding: Binding, found: Key) -> None:
        """Notes what new values meet in a rule with the row of a key: others might not, or might do as well."""
        new = {each.witness for each in branch.placeholders}
        if not new.isdisjoint((*binding.values(), *found[1])):
            rows = [(atom.relation, tuple(_value(term, binding) for term in atom.args)) for atom in rule.positive]
            self.new_values.offered.note_meeting(branch, [found, *rows])
            self.new_values.note_compared(branch, rule, binding)


def _joined(atom: Atom, row: Row, binding: Binding) -> Binding | None:
    """The binding with what a row gives to the variables of a literal; None if it is no row of it. NULL and NaN, which
    are equal to nothing, give no value."""
    known = dict(binding)
    for term, value in zip(atom.args, row, strict=True):
        is_plain = value is not None and value == value
        match term:
            case Constant(other) if is_plain and other != value:
                return None
            case Variable(name) if is_plain and known.setdefault(name, value) != value:
                return None
            case _:
                pass
    return known


def _given(atom: Atom, row: Row) -> Binding:
    """What a row gives to the variables of a literal."""
    return {term.name: value for term, value in zip(atom.args, row, strict=True) if isinstance(term, Variable)}


def _value(term: Term, binding: Binding) -> object:
    match term:
        case Constant(value):
            return value
        case Variable(name):
            return binding.get(name, UNKNOWN)
        case _:
            return UNKNOWN
