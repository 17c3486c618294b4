"""Arguments, streams, exit codes: what holds for every command."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import ROOT, Ended, command, environment_with
from upshot.cli.output.diagnostics import as_fields
from upshot.core.diagnostic import Diagnostic

Run = Callable[..., Ended]
Write = Callable[[str, str | bytes], Path]

COMMANDS = (
    "demo",
    "check",
    "run",
    "watch",
    "rewrite",
    "export",
    "explain",
    "why",
    "why-not",
    "why-changed",
    "what-if",
    "update",
    "repairs",
    "models",
    "verify",
    "query",
    "init",
    "warm",
    "backup",
    "accept-loss",
    "repl",
    "follow",
    "serve",
    "token",
    "bench",
    "pipeline",
)
SUBCOMMANDS = {"pipeline": ("pipeline", "run")}
"""Where the options of a command are those of the one below it."""
REFERENCE = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")


def section(name: str) -> str:
    return REFERENCE.split(f"\n## {name}\n")[1].split("\n## ")[0]


def test_help_lists_exactly_the_commands_there_are(upshot: Run) -> None:
    ended = upshot("--help")
    assert ended.code == 0
    listed = re.findall(r"^  ([a-z-]+)  ", ended.out.split("Commands:")[1], re.MULTILINE)
    assert tuple(listed) == COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_in_the_reference(upshot: Run, name: str) -> None:
    ended = upshot(*SUBCOMMANDS.get(name, (name,)), "--help")
    assert ended.code == 0
    options = set(re.findall(r"(?<![\w-])--?[a-zA-Z][a-z-]*", ended.out.split("Options:")[1]))
    everywhere = section("All commands")
    missing = [option for option in sorted(options) if f"`{option}" not in section(name) + everywhere]
    assert missing == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_the_reference_exists(upshot: Run, name: str) -> None:
    options = set(re.findall(r"^\| `(--?[a-zA-Z][a-z-]*)", section(name), re.MULTILINE))
    shown = upshot(*SUBCOMMANDS.get(name, (name,)), "--help").out
    assert [option for option in sorted(options) if option not in shown] == []


def test_the_version_is_printed(upshot: Run) -> None:
    ended = upshot("--version")
    assert ended.code == 0
    assert ended.out.startswith("upshot ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["check"],
        ["check", "a.dl", "--format", "xml"],
        ["watch", "a.dl"],
        ["rewrite", "a.dl"],
        ["check", "--no-such-option"],
        ["check", "no-such-file.dl"],
        ["run", "no-such-file.dl", "-D", "-"],
        ["check", "."],
        ["demo", "no-such-demo"],
        ["watch", "-", "--changes", "-"],
    ],
)
def test_wrong_usage_ends_with_two_and_says_so_on_stderr(upshot: Run, arguments: list[str]) -> None:
    ended = upshot(*arguments)
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err != ""


@pytest.mark.parametrize("arguments", [["run", "FILE", "-D", "-"], ["demo", "inventory"], ["repl"], ["verify", "FILE"]])
def test_spark_that_cannot_run_is_refused_with_the_way_to_get_it(
    upshot: Run, closure: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    ended = upshot(*(str(closure) if word == "FILE" else word for word in arguments), "--engine", "spark")
    assert ended.code == 2
    assert "error[missing-spark]" in ended.err
    assert "pip install" in ended.err


def test_what_runs_nothing_needs_no_engine(upshot: Run, closure: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert upshot("check", closure, "--engine", "spark").code == 0
    assert upshot("rewrite", closure, "--strategy", "maintenance", "--engine", "spark").code == 0


@pytest.mark.parametrize("command", ["check", "rewrite", "init", "warm", "backup", "accept-loss", "follow", "bench"])
def test_the_help_of_a_command_without_an_engine_says_so(upshot: Run, command: str) -> None:
    assert "Has no effect: this command runs no engine." in " ".join(upshot(command, "--help").out.split())


@pytest.mark.parametrize("engine", ["local", "auto"])
def test_the_engine_can_be_named(upshot: Run, closure: Path, engine: str) -> None:
    assert upshot("check", closure, "--engine", engine).code == 0


@pytest.mark.parametrize(
    ("content", "slug"),
    [
        (b"", "empty-program"),
        (b"// only a remark\n", "empty-program"),
        (b".decl a(x: number)\n\xff\xfe", "not-utf8"),
        (b"a(1", "unexpected-end"),
    ],
)
def test_a_file_that_is_no_program_ends_with_one(upshot: Run, write: Write, content: bytes, slug: str) -> None:
    file = write("bad.dl", content)
    for name in ("check", "run", "explain", "verify"):
        ended = upshot(name, file)
        assert ended.code == 1
        assert f"error[{slug}]" in ended.err
        assert ended.out == ""


def test_errors_as_json_are_one_object_a_line(upshot: Run, write: Write) -> None:
    file = write("bad.dl", ".decl a(x: number)\na(X) :- b(X).\na(Y) :- a(Z).\n")
    ended = upshot("run", file, "--format", "json")
    assert ended.code == 1
    found = [json.loads(line) for line in ended.err.splitlines()]
    assert [(each["slug"], each["line"], each["column"]) for each in found] == [
        ("unknown-relation", 2, 9),
        ("unsafe-variable", 3, 3),
    ]
    assert all(each["file"] == str(file) and each["severity"] == "error" for each in found)
    assert {"message", "help"} <= found[0].keys()


def test_a_diagnostic_has_its_code_under_two_keys() -> None:
    fields = as_fields(Diagnostic("some-code", "words"))
    assert (fields["code"], fields["slug"]) == ("some-code", "some-code")


def test_a_diagnostic_without_help_has_no_such_field() -> None:
    assert "help" not in as_fields(Diagnostic("some-code", "words"))
    assert as_fields(Diagnostic("some-code", "words", help="do"))["help"] == "do"


def test_a_program_can_come_from_standard_input(process: Run) -> None:
    ended = process("check", "-", stdin=".decl a(x: number)\na(1).\n")
    assert (ended.code, ended.out) == (0, "<stdin>: ok, 1 base relation, 0 views\n")
    ended = process("check", "-", stdin="a(1).")
    assert "<stdin>:1:" in ended.err
    assert ended.err.endswith("\n<stdin>: 1 error\n")


def test_a_missing_program_is_wrong_usage_and_a_missing_fact_file_wrong_data(
    upshot: Run, closure: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("run", "verify", "explain"):
        ended = upshot(name, closure, "-F", tmp_path / "empty")
        assert ended.code == 1, name
        assert "error[missing-facts]" in ended.err
        assert upshot(name, tmp_path / "no.dl").code == 2
        assert upshot(name, closure, "-F", tmp_path / "no").code == 2
    assert upshot("watch", closure, "--changes", tmp_path / "no.ndjson").code == 2


# ---- streams and signals ---------------------------------------------------------------------------


def test_a_reader_that_goes_away_is_no_error(closure: Path) -> None:
    running = subprocess.Popen(
        command("run", closure, "-F", closure.parent / "facts", "-D", "-"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment_with(),
    )
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.close()
    said = running.stderr.read()
    running.stderr.close()
    assert running.wait(300) == 141
    assert said == b""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_closed_stream_is_an_empty_one(closure: Path, closed: str) -> None:
    line = shlex.join(command("watch", closure, "-F", closure.parent / "facts", "--changes", "-"))
    ended = subprocess.run(
        f"{line} {closed}", shell=True, input=b"{}\n", capture_output=True, env=environment_with(), timeout=300
    )
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_an_interrupt_ends_with_130(closure: Path) -> None:
    running = subprocess.Popen(
        command("watch", closure, "-F", closure.parent / "facts", "--changes", "-"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment_with(),
    )
    assert running.stdin is not None
    assert running.stdout is not None
    running.stdin.write(b'{"insert": {"edge": [[4, 5]]}}\n')
    running.stdin.flush()
    assert running.stdout.readline().startswith(b'{"version": ')
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=300)
    assert running.returncode == 130
    assert said == b"interrupted\n"


def written_to_a_terminal(words: list[str], **environment: str) -> str:
    """What a process writes to a terminal on stderr."""
    parent, child = pty.openpty()
    with subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=child, env=environment_with(TERM="xterm", **environment)
    ) as running:
        running.wait(300)
    os.close(child)
    written = b""
    try:
        while chunk := os.read(parent, 65536):
            written += chunk
    except OSError:
        pass
    os.close(parent)
    return written.decode()


def test_colors_appear_on_a_terminal_unless_nobody_wants_them(write: Write) -> None:
    file = write("bad.dl", "a(1).")
    assert "\x1b[1;31merror[unknown-relation]\x1b[0m" in written_to_a_terminal(command("check", file))
    assert "\x1b" not in written_to_a_terminal(command("check", file), NO_COLOR="1")


def test_no_colors_appear_elsewhere(process: Run, write: Write) -> None:
    assert "\x1b" not in process("check", write("bad.dl", "a(1)."), FORCE_COLOR="").err


def test_output_is_utf8_whatever_the_locale(process: Run, write: Write) -> None:
    write("facts/a.facts", "né\n")
    file = write("a.dl", ".decl a(x: symbol)\n.input a\n.output a\n")
    ended = process("run", file, "-F", file.parent / "facts", "-D", "-", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert (ended.code, "né" in ended.out) == (0, True)


# ---- what is imported ------------------------------------------------------------------------------


def imported(*arguments: object) -> set[str]:
    program = (
        "import sys; from upshot.cli import main; "
        f"main({[str(argument) for argument in arguments]!r}); print(*sys.modules, file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment_with(), check=True, timeout=300
    )
    return set(ended.stderr.split())


HEAVY = {"numpy", "pyarrow", "numba", "pandas", "polars", "duckdb", "rich", "upshot.engine", "upshot.database"}


def test_help_imports_nothing_but_the_command_line() -> None:
    assert imported("--help").isdisjoint(HEAVY | {"upshot.syntax", "upshot.check"})


def test_check_imports_no_engine(closure: Path) -> None:
    assert imported("check", closure).isdisjoint(HEAVY)


# ---- progress ---------------------------------------------------------------------------------------


def progress(patience: float) -> str:
    """What a terminal sees of a piece of work that takes half a second."""
    program = (
        "import time; from upshot.cli.output import terminal; "
        f"terminal.PATIENCE = {patience}\n"
        "with terminal.Terminal().progress('counting sheep', 4) as bar:\n"
        "    for _ in range(4): time.sleep(0.12); bar.advance(); bar.label('counting goats')\n"
        "    bar.restart('sleeping')\n"
    )
    return written_to_a_terminal([sys.executable, "-c", program])


def test_long_work_shows_its_progress_and_short_work_does_not() -> None:
    assert "counting" in progress(patience=0.05)
    assert progress(patience=30.0) == ""


def test_a_pipeline_file_without_run_names_the_command(upshot: Run) -> None:
    ended = upshot("pipeline", "p.toml")
    assert ended.code == 2
    assert "Did you mean 'pipeline run p.toml'?" in ended.err


@pytest.mark.parametrize("option", [["--prefer", "least_side_effects"], ["--prefer", "least-side-effects"]])
def test_preferences_have_one_documented_option_and_the_older_one_still_works(
    upshot: Run, tmp_path: Path, option: list[str]
) -> None:
    file = tmp_path / "program.dl"
    file.write_text('.decl r(x: symbol)\n.decl p(x: symbol)\np(X) :- r(X).\nr("a").\n')
    assert upshot("update", file, '-p("a")', *option).out.splitlines()[:2] == ["// 1. 1 change, cost 1", '-r("a")']
    assert upshot("update", file, '-p("a")', "--least-side-effects").code == 0
    assert "--least-side-effects" not in upshot("update", "--help").out
