"""An interactive session: the database, the program typed so far, and the execution of statements."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import assert_never

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from upshot.active.firing import Firing
from upshot.cli.commands.query import answers
from upshot.cli.commands.realizations import print_update
from upshot.cli.commands.verify import equal_recomputation
from upshot.cli.commands.what_if import print_what_if
from upshot.cli.commands.why import print_why, print_why_not
from upshot.cli.input.files import existing_directory, read_program
from upshot.cli.input.programs import parse_source
from upshot.cli.input.rows import Row, fact_rows, ground_facts, row
from upshot.cli.options import SearchOptions, WhyNotOptions
from upshot.cli.output.changes import commit_to_json, firing_lines, report_failures, rows_of_rules, view_changes
from upshot.cli.output.diagnostics import of_error
from upshot.cli.output.outcome import code_of
from upshot.cli.output.terminal import Terminal
from upshot.cli.repl.statements import (
    ChangeText,
    Command,
    ProgramText,
    QueryText,
    Statement,
    Unfinished,
    signed_facts,
)
from upshot.cli.session import load_facts
from upshot.cli.settings import ENGINE_FAILED, OK, WRONG_INPUT
from upshot.core.diagnostic import Diagnostic, did_you_mean
from upshot.core.errors import Error, ProgramError, UsageError, counted
from upshot.core.field_text import text_of
from upshot.core.json_values import rows_to_json
from upshot.core.rows import Rows
from upshot.core.schema import Role
from upshot.core.span import Source, Span
from upshot.database.changes import Changes, ChangeSet, Commit
from upshot.database.constraints import notes_of_repairs
from upshot.database.database import Database
from upshot.database.program.definitions import without
from upshot.database.queries.query import is_select
from upshot.database.transaction import Transaction
from upshot.syntax import parse, print_program
from upshot.syntax.ast import Deny, Item, Program, Rule

HELP = """\
.decl edge(a: number, b: number)      declare a relation
path(X, Y) :- edge(X, Y).             add a rule to a view; rules and changes end with a period
+edge(1, 2), -edge(2, 3).             commit a transaction and show the changed views
? path(1, X)                          query
SELECT b FROM path WHERE a = 1        query in SQL, also after ? or :sql
CREATE VIEW v AS SELECT b FROM path;  define in SQL, up to the semicolon
:why path(1, 3)                       show how a row is derived
:why-not path(3, 1)                   show why a row is missing, and what would insert it
:what-if +edge(1, 2), -edge(2, 3)     show the effects of a transaction without committing it
:update +path(3, 1)                   find base changes that insert or delete rows of views
:list                                 list relations with their sizes, and active rules
:explain [NAME]                       show how views are maintained and when active rules fire
:stats                                show the work of the last commit
:verify                               recompute every view and compare
:load FILE                            define a program and read its .input files
:drop NAME                            drop a view, an active rule, or an empty relation
:help  :quit"""

_OTHER_NAMES = {"?": "help", "exit": "quit"}


class Quit(Exception):
    """Ends the session."""


class ReplSession:
    """Executes statements. A statement with an error is reported and changes nothing."""

    def __init__(self, terminal: Terminal, fact_dir: Path | None, database: Database) -> None:
        self.database = database
        self.code = OK
        """The exit code of the errors so far: 3 if the engine failed, 1 for every other error."""
        self._terminal = terminal
        self._fact_dir = fact_dir
        self._program = Program(())
        self._last: Transaction | Commit | None = None
        self.commands: dict[str, Callable[[str], None]] = {
            "help": self._help,
            "sql": self._sql,
            "why": self._why,
            "why-not": self._why_not,
            "what-if": self._what_if,
            "update": self._update,
            "list": self._list,
            "explain": self._explain,
            "stats": self._stats,
            "verify": self._verify,
            "load": self._load,
            "drop": self._drop,
            "quit": self._quit,
        }

    def execute(self, statement: Statement) -> None:
        """Execute a statement; report its errors."""
        try:
            match statement:
                case Command(name, argument):
                    self._command(name, argument)
                case QueryText(body):
                    self._query(body)
                case ChangeText(facts):
                    self._change([(sign, *fact) for sign, text in facts for fact in self._rows(text)])
                case ProgramText(text):
                    self._define(text)
                case Unfinished(text):
                    raise ProgramError([_unfinished(text)])
                case _:
                    assert_never(statement)
        except Error as error:
            self._terminal.out.flush()
            self._terminal.report(of_error(error))
            self.code = max(self.code, ENGINE_FAILED if code_of(error) == ENGINE_FAILED else WRONG_INPUT)

    def _rows(self, text: str) -> list[tuple[str, Row]]:
        return fact_rows(text, self.database.schemas)

    # ---- statements -------------------------------------------------------------------------------

    def _command(self, name: str, argument: str) -> None:
        name = _OTHER_NAMES.get(name, name)
        matching = (
            [name] if name in self.commands else [each for each in self.commands if name and each.startswith(name)]
        )
        if len(matching) != 1:
            help = did_you_mean(name, self.commands) or "`:help` lists the commands"
            raise UsageError(f"unknown command `:{name}`", code="unknown-command", help=help)
        self.commands[matching[0]](argument)

    def _query(self, body: str) -> None:
        rows = answers(self._terminal, self.database, body.removesuffix(";") if is_select(body) else body, {})
        if self._terminal.json:
            columns = json.dumps([column.name for column in rows.schema.columns])
            self._terminal.data(f'{{"columns": {columns}, "rows": {rows_to_json(rows)}}}')
        else:
            show_answer(self._terminal, rows)

    def _change(self, facts: list[tuple[str, str, Row]]) -> None:
        """Apply facts in the order of their input; only the net effect counts."""
        with self.database.transaction() as transaction:
            for sign, relation, values in facts:
                if sign == "+":
                    transaction.insert(relation, [values])
                else:
                    transaction.delete(relation, [values])
        self._last = transaction
        self._show(transaction.version, transaction.changes, transaction.firings)
        report_failures(self._terminal, transaction.firings)
        self._terminal.report((*transaction.warnings, *notes_of_repairs(transaction.repaired, self.database.schemas)))

    def _define(self, text: str) -> None:
        """Add rules to those of a view. Facts of base relations are a transaction."""
        if is_select(text):
            self._commit_definition(text, "<repl>")
            return
        program = parse(text, "<repl>")
        facts = ground_facts(program)
        schemas = self.database.schemas
        if facts and all(atom.relation in schemas and schemas[atom.relation].role is Role.BASE for atom in facts):
            self._change([("+", atom.relation, row(atom, schemas)) for atom in facts])
            return
        heads = {name for item in program.items for name in _heads(item)}
        earlier = [item for item in self._program.items if not heads.isdisjoint(_heads(item))]
        whole = print_program(Program(tuple(earlier))) + "\n" + text if earlier else text
        self._commit_definition(whole, "<repl>")

    def _commit_definition(self, text: str, name: str) -> None:
        definition = self.database.define(text, name=name)
        self._program = self.database.program
        self._last = definition
        self._terminal.report(definition.warnings)
        self._show(definition.version, definition.changes, quiet=True)

    def _show(self, version: int, changes: ChangeSet, firings: Sequence[Firing] = (), *, quiet: bool = False) -> None:
        changed = view_changes(changes, self.database.schemas)
        if self._terminal.json:
            self._terminal.data(commit_to_json(version, changed, rows_of_rules(firings)))
            return
        if changed or not quiet:
            show_changes(self._terminal, changed)
        for line in firing_lines(firings):
            self._terminal.data(line)

    # ---- commands ---------------------------------------------------------------------------------

    def _help(self, _: str) -> None:
        self._terminal.data(HELP)

    def _sql(self, text: str) -> None:
        if not is_select(text):
            raise UsageError("`:sql` needs a query", code="wrong-argument", help="as in `:sql SELECT a, b FROM path`")
        self._query(text)

    def _why(self, text: str) -> None:
        print_why(self._terminal, self.database, _row_text("why", text))

    def _why_not(self, text: str) -> None:
        print_why_not(self._terminal, self.database, _row_text("why-not", text), WhyNotOptions())

    def _what_if(self, text: str) -> None:
        print_what_if(self._terminal, self.database, _signed("what-if", text))

    def _update(self, text: str) -> None:
        code = print_update(
            self._terminal, self.database, _signed("update", text), SearchOptions(limit=MOST_REALIZATIONS)
        )
        self.code = max(self.code, code)

    def _list(self, _: str) -> None:
        for name, schema in self.database.schemas.items():
            size = counted(len(self.database.rows(name)), "row")
            self._terminal.data(f"{schema}  {schema.role.value}, {size}")
        for name in self.database.rules:
            self._terminal.data(f"{name}  active rule")

    def _explain(self, view: str) -> None:
        explanation = self.database.explain(view or None)
        self._terminal.data((str(explanation) if view else explanation.summary()).rstrip("\n"))

    def _stats(self, _: str) -> None:
        if self._last is None:
            self._terminal.message("no commit yet")
            return
        for name, value in self._last.stats.as_dict().items():
            if isinstance(value, (int, float)) and value:
                self._terminal.data(f"{name:<12} {value:,}" if isinstance(value, int) else f"{name:<12} {value:.6f}")

    def _verify(self, _: str) -> None:
        verified = self.database.verify()
        views = [name for name in verified.views if name in self.database.schemas]
        self._terminal.data(f"ok: {counted(len(views), 'view')} {equal_recomputation(len(views))}")

    def _load(self, argument: str) -> None:
        if not argument:
            raise UsageError("`:load` needs a file name", code="wrong-argument", help="as in `:load graph.dl`")
        self.load(Path(argument))

    def load(self, file: Path) -> None:
        """Define the program of a file and read the files of its `.input` relations."""
        if self._fact_dir is not None:
            existing_directory(self._fact_dir, "-F")
        source = read_program(file)
        parse_source(source, self.database.schemas)
        self._commit_definition(source.text, source.name)
        load_facts(self._terminal, self.database, self._fact_dir or Path(), optional=self._fact_dir is None)

    def _drop(self, name: str) -> None:
        self.database.drop(name)
        self._program = without(self._program, name)

    def _quit(self, _: str) -> None:
        raise Quit


def _row_text(command: str, text: str) -> str:
    if not text:
        raise UsageError(f"`:{command}` needs a row", code="wrong-argument", help=f"as in `:{command} path(1, 3)`")
    return text.removesuffix(".")


def _signed(command: str, text: str) -> list[str]:
    if not text:
        help = f"as in `:{command} +edge(1, 2), -edge(2, 3)`"
        raise UsageError(f"`:{command}` needs rows with signs", code="wrong-argument", help=help)
    return [sign + fact for sign, fact in signed_facts(text)]


def _unfinished(text: str) -> Diagnostic:
    first = text.partition("\n")[0]
    return Diagnostic(
        "unfinished-statement",
        "this statement is incomplete and was dropped",
        Span(Source("<repl>", text), 0, len(first)),
        help="end rules, facts and changes with a period, `CREATE …` with a semicolon; close brackets and comments",
    )


def _heads(item: Item) -> set[str]:
    match item:
        case Rule(heads):
            return {head.relation for head in heads}
        case Deny(head):
            return {head.relation}
        case _:
            return set()


MOST_REALIZATIONS = 5
MOST_ROWS = 20
"""The number of rows shown of an answer, and of each side of a change."""


def show_answer(terminal: Terminal, rows: Rows) -> None:
    """Print the rows of an answer under the names of its variables; yes or no without variables."""
    if not rows.schema.columns:
        terminal.show("yes" if len(rows) else "no")
        return
    if len(rows):
        table = _table(*(column.name for column in rows.schema.columns))
        for values in islice(rows, MOST_ROWS):
            table.add_row(*(Text(text_of(value)) for value in values))
        terminal.show(table)
    shown = f", the first {MOST_ROWS} shown" if len(rows) > MOST_ROWS else ""
    terminal.show(Text(counted(len(rows), "row") + shown, style="dim"))


def show_changes(terminal: Terminal, changed: Sequence[tuple[str, Changes]]) -> None:
    """Print one line per row: sign, view, values."""
    if not changed:
        terminal.show(Text("no view changed", style="dim"))
        return
    table = _table("", "view", "row")
    for name, change in changed:
        _add(table, name, "-", change.deleted, "red")
        _add(table, name, "+", change.inserted, "green")
    terminal.show(table)


def _add(table: Table, name: str, sign: str, rows: Rows, style: str) -> None:
    for values in rows.sorted()[:MOST_ROWS]:
        table.add_row(Text(sign), Text(name), Text(", ".join(map(text_of, values)) or "()"), style=style)
    if len(rows) > MOST_ROWS:
        table.add_row(Text(sign), Text(name), Text(f"… {len(rows) - MOST_ROWS:,} more"), style="dim")


def _table(*columns: str) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(Text(column), overflow="fold")
    return table
