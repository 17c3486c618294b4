"""A row that a command is asked about, as a program writes it."""

from __future__ import annotations

from typing import Any

from upshot.cli.repl.facts import row
from upshot.core.diagnostic import Diagnostic
from upshot.core.errors import ProgramError, UsageError
from upshot.database.database import Database
from upshot.syntax import parse_query
from upshot.syntax.ast import Atom, Constant, Term, Variable

_HELP = "as in 'closure(1, 3)'"


def asked_row(text: str, database: Database) -> tuple[str, tuple[Any, ...]]:
    """The relation, or active rule, and the row that a fact such as `closure(1, 3)` names."""
    if not text.strip(" ."):
        raise UsageError("the row is empty", code="not-a-fact", help=_HELP)
    atom = parse_query(text.rstrip().removesuffix("."))
    if not isinstance(atom, Atom):
        raise ProgramError([Diagnostic("not-a-fact", "not a row of a relation", atom.span, help=_HELP)])
    for term in atom.args:
        if not isinstance(term, Constant):
            raise ProgramError([Diagnostic("not-a-fact", "a row has only constants", term.span, help=_cure(term))])
    if atom.relation in database.rules:
        return atom.relation, tuple(term.value for term in atom.args if isinstance(term, Constant))
    return atom.relation, row(atom, database.schemas)


def _cure(term: Term) -> str:
    """What to write instead: a name without quotes is a variable, and was perhaps meant as text."""
    return f'write text in quotes: "{term.name}"; {_HELP}' if isinstance(term, Variable) else _HELP
