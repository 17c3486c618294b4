"""The interactive session, from a pipe and at a terminal."""

from __future__ import annotations

import codecs
import fcntl
import io
import itertools
import json
import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Ended, command, environment_with
from upshot import connect
from upshot.cli.commands.repl import Completer
from upshot.cli.output.terminal import Terminal as Output
from upshot.cli.repl.session import ReplSession
from upshot.cli.repl.statements import ChangeText, Command, Input, ProgramText, QueryText, Unfinished
from upshot.cli.settings import Format

Run = Callable[..., Ended]
Write = Callable[[str, str | bytes], Path]


def cut(text: str) -> list[object]:
    lines = Input()
    found = [statement for line in text.splitlines() for statement in lines.feed(line)]
    return [*found, *lines.finish()]


def test_what_is_typed_is_cut_into_statements() -> None:
    text = """
        .decl edge(a: number,
                   b: number)
        // a remark. with a stop
        path(X, Y) :-
            edge(X, Y),  /* not here. */ X > 4.2, Y != "a.b \\" .".
        edge(1, 2). edge(2, 3).
        +edge(1, 2), edge(2, 3), -edge(3, f(4, 5)).
        ? path(1, X),
          X < 3
        :explain path
        .deny loop(X)
            :- path(X, X).
        .deny loop on_violation=warn
        ?- path(2, X).
    """
    found = cut(text)
    assert [type(statement) for statement in found] == [
        *[ProgramText] * 4,
        ChangeText,
        QueryText,
        Command,
        *[ProgramText] * 2,
        QueryText,
    ]
    assert found[4] == ChangeText((("+", "edge(1, 2)"), ("+", "edge(2, 3)"), ("-", "edge(3, f(4, 5))")))
    assert found[6] == Command("explain", "path")
    assert found[9] == QueryText("path(2, X).")


def test_a_forgotten_bracket_does_not_swallow_what_follows() -> None:
    assert len(cut("edge(1, 2.\nedge(2, 3).")) == 2


def test_a_statement_without_its_stop_is_unfinished_at_the_end() -> None:
    for text in ("edge(1, 2)", "+edge(1, 2)", "? edge(1,", ".decl edge(a: number,", "/* a remark"):
        assert cut("// before\n" + text) == [Unfinished(text)]
    assert cut("  // nothing\n\n") == []


def test_a_command_is_one_in_the_middle_of_a_statement() -> None:
    for text in ("edge(1,", ".decl edge(a: number,", "/* a remark", 'edge("a'):
        assert cut(f"{text}\n  :explain path\nedge(1, 2).") == [
            Unfinished(text),
            Command("explain", "path"),
            ProgramText("edge(1, 2)."),
        ]


def test_a_line_of_a_statement_may_begin_with_a_colon() -> None:
    for text in ("path(X, Y)\n:- edge(X, Y).", "n(N) :- N = count\n: { edge(_, _) }.", ".decl edge(a\n:number)"):
        assert cut(text) == [ProgramText(text)]


def test_sql_needs_no_mark() -> None:
    assert cut("SELECT a FROM e\nselect b\n") == [QueryText("SELECT a FROM e"), QueryText("select b")]
    assert cut("with t as (\nselect 1.5 as a)  select a,\nb from t; edge(1, 2).") == [
        QueryText("with t as (\nselect 1.5 as a)  select a,\nb from t;"),
        ProgramText("edge(1, 2)."),
    ]
    assert cut("create table t\n(a decimal(4.1));\nselect(X) :- edge(X, _).\nvalues(1).") == [
        ProgramText("create table t\n(a decimal(4.1));"),
        ProgramText("select(X) :- edge(X, _)."),
        ProgramText("values(1)."),
    ]
    assert cut("create table t (a int)") == [Unfinished("create table t (a int)")]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM e WHERE s = 'x;y'", "SELECT '(' AS v", r"SELECT E'it\';s' AS v", 'SELECT a AS "x;y" FROM e',
        "SELECT a -- it's; here", "CREATE VIEW v AS SELECT ';' AS b;",
        "CREATE VIEW v AS SELECT a -- it's; not\nFROM e;",
    ],
)  # fmt: skip
def test_marks_in_texts_names_and_comments_of_sql_end_nothing(text: str) -> None:
    assert cut(f"{text}\n") == [ProgramText(text) if text.startswith("CREATE") else QueryText(text)]


def test_bare_words_are_commands_at_the_start_of_a_statement_only() -> None:
    assert cut("help\n ? \nquit\nexit") == [Command(name, "") for name in ("help", "help", "quit", "quit")]
    assert cut("a() :-\nhelp\n, quit.") == [ProgramText("a() :-\nhelp\n, quit.")]


GRAPH = """\
.decl edge(a: number, b: number)
.decl path(a: number, b: number)
path(X, Y) :- edge(X, Y).
path(X, Z) :- edge(X, Y), path(Y, Z).
"""


@pytest.fixture
def repl(upshot: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A session over the graph, fed from a pipe."""

    def run(text: str, *arguments: object, before: str = GRAPH) -> Ended:
        monkeypatch.setattr(sys, "stdin", io.StringIO(before + text))
        return upshot("repl", *arguments)

    return run


def test_changes_print_what_follows_from_them(repl: Run) -> None:
    ended = repl("+edge(1, 2), +edge(2, 3).\n-edge(1, 2).\n-edge(7, 7).\n")
    assert ended == Ended(
        0,
        "    view   row\n───────────────\n+   path   1, 2\n+   path   1, 3\n+   path   2, 3\n"
        "    view   row\n───────────────\n-   path   1, 2\n-   path   1, 3\n"
        "no view changed\n",
        "",
    )


def test_queries_are_answered(repl: Run) -> None:
    ended = repl(
        "edge(1, 2). edge(2, 3).\n? path(1, X)\n? path(1, 3)\n? path(3, _)\n? path(3, X)\n", "--format", "json"
    )
    answers = [json.loads(line) for line in ended.out.splitlines()][-4:]
    assert answers == [
        {"columns": ["X"], "rows": [[2], [3]]},
        {"columns": [], "rows": [[]]},
        {"columns": [], "rows": []},
        {"columns": ["X"], "rows": []},
    ]
    assert repl("edge(1, 2).\n? path(1, X)\n? path(1, 2)\n? path(2, 1)\n").out.endswith("X\n─\n2\n1 row\nyes\nno\n")


def test_sql_is_answered_in_its_order(repl: Run) -> None:
    facts = "edge(1, 2). edge(2, 3).\n"
    select = "SELECT p.b FROM path p ORDER BY p.b DESC"
    view = "create view v as\nselect b from path;\nselect b from v order by b desc"
    for query in (f":sql {select}", f"? {select};", select, f"{select};", view):
        ended = repl(f"{query}\n", "--format", "json", before=GRAPH + facts)
        assert (ended.code, ended.err) == (0, "")
        assert json.loads(ended.out.splitlines()[-1]) == {"columns": ["b"], "rows": [[3], [2]]}
    wrong = repl(":sql path(1, X)\n")
    assert (wrong.code, "`:sql` needs a query" in wrong.err) == (1, True)


def test_rows_are_explained_and_changes_tried_as_by_the_commands(repl: Run, upshot: Run, write: Write) -> None:
    facts = "edge(1, 2). edge(2, 3).\n"
    file = write("graph.dl", GRAPH + facts)
    for typed, arguments in (
        ("why path(1, 3)", ["why", file, "path(1, 3)"]),
        ("why-not path(3, 1)", ["why-not", file, "path(3, 1)"]),
        ("what-if +edge(3, 4), -edge(1, 2)", ["what-if", file, "+edge(3, 4)", "-edge(1, 2)"]),
        ("update -path(1, 3)", ["update", file, "-path(1, 3)"]),
    ):
        expected = upshot(*arguments)
        ended = repl(f":{typed}\n", file, before="")
        assert ended.code == expected.code == 0, ended.err
        assert expected.out in ended.out, typed


def test_a_request_without_rows_is_reported(repl: Run) -> None:
    for name in ("why", "why-not", "what-if", "update"):
        ended = repl(f":{name}\n")
        assert (ended.code, f"error[wrong-argument]: `:{name}` needs" in ended.err) == (1, True)


def test_commands_and_relations_are_completed() -> None:
    with connect() as database:
        database.define(GRAPH)
        completer = Completer(ReplSession(Output(Format.TEXT), None, database))

        def completions(text: str) -> list[str]:
            return list(itertools.takewhile(bool, (completer(text, n) or "" for n in itertools.count())))

        assert completions(":why") == [":why", ":why-not"]
        assert completions(":what-") == [":what-if"]
        assert completions(":u") == [":update"]
        assert completions(":s") == [":sql", ":stats"]
        assert completions("-ed") == ["-edge"]
        assert completions("pa") == ["path"]


def test_rules_typed_later_are_added_to_those_there_are(repl: Run) -> None:
    ended = repl("edge(1, 2).\npath(X, X) :- edge(X, _).\n? path(1, X)\n:verify\n", "--format", "json")
    lines = ended.out.splitlines()
    assert json.loads(lines[-2])["rows"] == [[1], [2]]
    assert json.loads(lines[-3])["changes"] == {"path": {"insert": [[1, 1]], "delete": []}}
    assert lines[-1].startswith("ok: 1 view")


def test_errors_are_reported_and_the_session_goes_on(repl: Run) -> None:
    mistakes = [
        ("+egde(1, 2).", "unknown-relation"),
        ("+edge(1).", "wrong-arity"),
        ("+edge(1, X).", "not-a-fact"),
        ('+edge(1, "a").', "wrong-type"),
        ("+path(1, 2).", "not-a-base-relation"),
        ("+edge(1, 2) :- edge(2, 1).", "not-a-fact"),
        ("path(X, Y) :- edge(X, Z).", "unsafe-variable"),
        ("path(X, Y :- edge(X, Y).", "unexpected-token"),
        ("? path(X", "unexpected-end"),
        ("?-", "empty-query"),
        (":nonsense", "unknown-command"),
        (":load", "wrong-argument"),
        (":load missing.dl", "no-such-file"),
        (":explain edge", "not-a-view"),
        (":drop nothing", "unknown-relation"),
    ]
    for text, slug in mistakes:
        ended = repl(f"{text}\n\n+edge(1, 2).\n", "--format", "json")
        assert ended.code == 1
        assert json.loads(ended.err.splitlines()[0])["slug"] == slug, text
        assert json.loads(ended.out.splitlines()[-1])["changes"] == {"path": {"insert": [[1, 2]], "delete": []}}, text


def test_commands_say_what_there_is(repl: Run) -> None:
    out = repl("edge(1, 2).\n:list\n:stats\n:explain path\n:help\n:quit\nnever read").out
    assert "edge(a: number, b: number)  base, 1 row\n" in out
    assert "path(a: number, b: number)  view, 1 row\n" in out
    assert "strategy maintenance" in out
    assert "inserted     1\n" in out
    assert ":load FILE" in out


def test_newcomers_get_help_and_get_out(repl: Run) -> None:
    for word in ("help", "?", ":help", ":?"):
        ended = repl(f"{word}\n")
        assert (ended.code, ended.err) == (0, "")
        assert ":load FILE" in ended.out
    for word in ("quit", "exit", ":quit", ":exit", ":q"):
        assert repl(f"{word}\n:nonsense\n") == Ended(0, "", "")


def test_a_command_drops_the_statement_before_it_and_says_so(repl: Run) -> None:
    ended = repl("path(X, Y) :- edge(X,\n:list\n+edge(1, 2).\n? path(1, 2)\n")
    assert ended.code == 1
    assert ended.err.startswith("error[unfinished-statement]: this statement is incomplete and was dropped\n")
    assert "path(a: number, b: number)  view, 0 rows\n" in ended.out
    assert ended.out.endswith("yes\n")
    ended = repl("edge(1,\n:quit\n:list\n")
    assert (ended.code, ended.out) == (1, "")


def test_a_statement_unfinished_at_the_end_of_a_pipe_is_an_error(repl: Run) -> None:
    ended = repl("+edge(1, 2)\n")
    assert (ended.code, ended.out) == (1, "")
    assert "error[unfinished-statement]" in ended.err


def test_one_view_is_equal_to_its_recomputation(repl: Run) -> None:
    assert repl(":verify\n").out == "ok: 1 view equals its recomputation\n"


def test_a_program_can_be_loaded_with_its_facts(process: Run, closure: Path) -> None:
    ended = process("repl", closure, "-F", closure.parent / "facts", stdin="? closure(1, X)\n", cwd=closure.parent)
    assert ended.out.endswith("2\n3\n4\n3 rows\n")
    ended = process("repl", "-F", "facts", stdin=":load closure.dl\n? closure(1, 4)\n", cwd=closure.parent)
    assert ended.out.endswith("yes\n")


def test_a_dropped_view_can_be_defined_otherwise(repl: Run) -> None:
    ended = repl(
        "edge(1, 2).\n:drop path\n.decl path(a: number)\npath(X) :- edge(X, _).\n? path(X)\n", "--format", "json"
    )
    assert json.loads(ended.out.splitlines()[-1])["rows"] == [[1]]
    assert ended.err == ""


def test_facts_take_the_types_of_their_columns(repl: Run) -> None:
    text = (
        ".decl r(f: float, d: decimal(6,2), n: symbol?)\n.decl v(f: float, d: decimal(6,2), n: symbol?)\n"
        'v(F, D, N) :- r(F, D, N).\n+r(1, 2.50, null), r(-3, 4, "x, y").\n'
    )
    ended = repl(text, "--format", "json", before="")
    changes = json.loads(ended.out.splitlines()[-1])["changes"]
    assert changes["v"]["insert"] == [[-3.0, "4.00", "x, y"], [1.0, "2.50", None]]


class Terminal:
    """A session at a terminal of its own."""

    def __init__(self, *arguments: object, home: Path) -> None:
        self._parent, child = pty.openpty()
        environment = environment_with(TERM="dumb", XDG_STATE_HOME=str(home))
        self.running = subprocess.Popen(
            command(*arguments),
            stdin=child,
            stdout=child,
            stderr=child,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(child)
        # What is read may end in the middle of a character.
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self._parent, text.encode())

    def interrupt_until(self, words: str) -> None:
        """Presses Ctrl-C until the words appear: pressed while readline is still setting up, it waits for a key."""
        end = time.monotonic() + 120
        while words not in self.seen and time.monotonic() < end:
            self.type("\x03")
            pause = time.monotonic() + 10
            while words not in self.seen and time.monotonic() < pause:
                self._read(max(0.0, pause - time.monotonic()))
        self.expect(words)

    def expect(self, words: str) -> None:
        """Reads until the words appear, and forgets everything up to them."""
        end = time.monotonic() + 120
        while words not in self.seen:
            assert self._read(max(0.0, end - time.monotonic())), f"no {words!r} in {self.seen!r}"
        self.seen = self.seen.split(words, 1)[1]

    def _read(self, patience: float) -> bool:
        ready, _, _ = select.select([self._parent], [], [], patience)
        if ready:
            try:
                self.seen += self._decoder.decode(os.read(self._parent, 65536))
            except OSError:
                raise AssertionError(f"the session ended: {self.seen!r}") from None
        return bool(ready)

    def close(self) -> int:
        code = self.running.wait(120)
        os.close(self._parent)
        return code


def test_at_a_terminal_there_are_prompts_and_ctrl_c_drops_what_was_typed(tmp_path: Path) -> None:
    terminal = Terminal("repl", home=tmp_path)
    terminal.expect("upshot> ")
    terminal.type(".decl edge(a: number, b: number)\n")
    terminal.expect("upshot> ")
    terminal.type("edge(1,\n")
    terminal.expect("   ...> ")
    terminal.interrupt_until("upshot> ")
    terminal.type("edge(1, 2).\n")
    terminal.expect("no view changed")
    terminal.expect("upshot> ")
    terminal.type("? edge(X, 2)\n")
    terminal.expect("1 row")
    terminal.expect("upshot> ")
    terminal.type(":nonsense\n")
    terminal.expect("error[unknown-command]")
    terminal.expect("upshot> ")
    terminal.type("edge(1,\n")
    terminal.expect("   ...> ")
    terminal.type(":quit\n")
    terminal.expect("error[unfinished-statement]")
    assert terminal.close() == 0
    assert "edge(1, 2)." in (tmp_path / "upshot" / "history").read_text()
