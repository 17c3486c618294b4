"""Rows and transactions on the command line: a row as a program writes it, a line of a change file."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from upshot.cli.input.changes import ChangeLine, parse_change
from upshot.cli.output.diagnostics import of_error
from upshot.cli.repl.facts import row
from upshot.core.diagnostic import Diagnostic
from upshot.core.errors import Error, ProgramError, UsageError
from upshot.database.database import Database
from upshot.database.transaction import Transaction
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
    """Suggest a correction: a name without quotes is a variable, and was perhaps meant as text."""
    return f'write text in quotes: "{term.name}"; {_HELP}' if isinstance(term, Variable) else _HELP


def commit_line(database: Database, line: ChangeLine) -> Transaction:
    """The committed transaction of a line. On any error nothing of it was applied."""
    change = parse_change(line, database.schemas)
    with database.transaction() as transaction:
        for relation, rows in change.delete.items():
            transaction.delete(relation, rows)
        for relation, rows in change.insert.items():
            transaction.insert(relation, rows)
    return transaction


def at_change(error: Error, line: ChangeLine) -> list[Diagnostic]:
    """The diagnostics of a line; each begins with its file and line number."""
    return [_placed(diagnostic, line) for diagnostic in of_error(error)]


def _placed(diagnostic: Diagnostic, line: ChangeLine) -> Diagnostic:
    if diagnostic.message.startswith(f"{line.place}: "):
        return diagnostic
    return replace(diagnostic, message=f"{line.place}: {diagnostic.message}", span=line.span(), label="")
