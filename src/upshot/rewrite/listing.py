"""Generated rules for display: one record per rule, and the text of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from upshot.check.names.variables import atoms
from upshot.check.program import Clause
from upshot.core.schema import Schema
from upshot.core.span import Span
from upshot.syntax.printing import print_atom, print_formula


@dataclass(frozen=True, slots=True)
class ListedRule:
    """`about` is the heading, `phase` the part of a change in which the rule runs, `finds` its head in words, `origin`
    the rule of the user that it was made from, if any."""

    name: str
    about: str
    phase: str
    finds: str
    head: str
    body: tuple[str, ...]
    origin: Span | None = None

    def as_dict(self) -> dict[str, Any]:
        place = self.origin
        return {
            "name": self.name,
            "about": self.about,
            "phase": self.phase,
            "finds": self.finds,
            "head": self.head,
            "body": list(self.body),
            "origin": None
            if place is None
            else {"source": place.source.name, "line": place.line, "column": place.column, "text": place.text},
        }


@dataclass(frozen=True, slots=True)
class RuleListing:
    """The rules in the order of the printed `text`, and the relations in them."""

    rules: tuple[ListedRule, ...]
    relations: tuple[Schema, ...]
    text: str

    def as_dict(self) -> dict[str, Any]:
        columns = {each.name: {c.name: str(c.type) for c in each.columns} for each in self.relations}
        return {"relations": columns, "rules": [rule.as_dict() for rule in self.rules], "text": self.text}


def nothing_listed(view: str | None) -> RuleListing:
    return RuleListing((), (), f"// no rules for {view}\n" if view else "// no rules\n")


def literals(clause: Clause) -> tuple[str, tuple[str, ...]]:
    """The head and the body of a clause as text."""
    return print_atom(clause.head), tuple(map(print_formula, clause.body))


def relations_of(clause: Clause) -> Iterator[str]:
    yield clause.head.relation
    for literal in clause.body:
        for atom in atoms(literal):
            yield atom.relation


def section(title: str, about: str, clauses: Iterable[Clause]) -> tuple[str, list[ListedRule]]:
    """Clauses under one title, as text and as rules without names."""
    rules = [ListedRule("", about, about, title, *literals(clause), clause.origin) for clause in clauses]
    return "\n".join([f"// ---- {title}", *map(printed, rules)]) + "\n\n", rules


def printed(rule: ListedRule) -> str:
    """The rule as a line of program text."""
    return f"{rule.head} :- {', '.join(rule.body)}." if rule.body else f"{rule.head}."
