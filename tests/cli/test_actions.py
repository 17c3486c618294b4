"""Active rules on the command line: the functions they call, what is printed of them, and how a run ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Ended

Run = Callable[..., Ended]
Write = Callable[[str, str | bytes], Path]

PROGRAM = """\
.decl stock(item: symbol, n: number)
.input stock
.decl order(item: symbol, n: number)
.decl low(item: symbol)
low(I) :- stock(I, N), N < 10.
.rule reorder(I, N) when low(I), stock(I, M), N = 100 - M do insert order(I, N).
.rule ordered(I, N) on insert order(I, N) do call tell(I, N).
.rule judged(I, N) coupling=deferred on insert order(I, N) when N > 99 do call judge(I).
.printsize order
"""
ACTIONS = """\
import sys
from json import dumps
import upshot

def tell(rows):
    print("told", dumps(sorted(rows)), file=sys.stderr)

def judge(rows, firing):
    raise upshot.Veto(f"{rows[0][0]} is sold out")

def _private(rows):
    raise AssertionError
"""


@pytest.fixture
def files(write: Write) -> tuple[Path, Path]:
    return write("stock.dl", PROGRAM), write("actions.py", ACTIONS)


@pytest.fixture
def watch(upshot: Run, files: tuple[Path, Path], write: Write) -> Run:
    def run(*lines: str, more: tuple[str, ...] = (), actions: Path = files[1]) -> Ended:
        changes = write("changes.ndjson", "".join(line + "\n" for line in lines))
        return upshot("watch", files[0], "--changes", changes, "--actions", actions, *more)

    return run


def test_watch_prints_the_firings_and_calls_the_functions(watch: Run) -> None:
    ended = watch('{"insert": {"stock": [["a", 3], ["b", 30]]}}', '{"insert": {"stock": [["c", 30]]}}')
    first, second = map(json.loads, ended.out.splitlines())
    assert ended.code == 0, ended.err
    assert first["firings"] == [{"rule": "reorder", "rows": [["a", 97]]}, {"rule": "ordered", "rows": [["a", 97]]}]
    assert first["changes"] == {"low": {"insert": [["a"]], "delete": []}}
    assert "firings" not in second
    assert 'told [["a", 97]]' in ended.err
    assert 'firing: reorder("a", 97)\nfiring: ordered("a", 97)\n' in ended.err


def test_watch_in_json_has_nothing_on_stderr(watch: Run) -> None:
    ended = watch('{"insert": {"stock": [["a", 3]]}}', more=("--format", "json"))
    assert json.loads(ended.out)["firings"][0]["rule"] == "reorder"
    assert "fires" not in ended.err


def test_a_veto_ends_the_run_and_applies_nothing(watch: Run) -> None:
    ended = watch('{"insert": {"stock": [["a", 0], ["b", 5]]}}')
    assert (ended.code, ended.out) == (1, "")
    assert "error[vetoed]: " in ended.err
    assert "rule `judged` rejected the transaction: a is sold out" in ended.err
    assert "changes.ndjson:1" in ended.err
    going_on = watch(
        '{"insert": {"stock": [["a", 0]]}}', '{"insert": {"stock": [["b", 5]]}}', more=("--on-error", "continue")
    )
    first, second = map(json.loads, going_on.out.splitlines())
    assert first["error"]["slug"] == "vetoed"
    assert second["firings"][0]["rows"] == [["b", 95]]
    assert going_on.code == 1


def test_what_rules_change_after_the_commit_has_a_line_of_its_own(upshot: Run, write: Write) -> None:
    program = """.decl n(x: number) .decl m(x: number) .decl log(x: number) .decl both(x: number)
    both(X) :- n(X), m(X).
    .rule copy(X) coupling=after on insert n(X) do insert m(X).
    .rule noted(X) coupling=after on insert both(X) do insert log(X).
    """
    changes = write("c.ndjson", '{"insert": {"n": [[1], [2]]}}\n{"insert": {"m": [[7]]}}\n{"insert": {"n": [[7]]}}\n')
    ended = upshot("watch", write("copy.dl", program), "--changes", changes)
    assert ended.code == 0, ended.err
    lines = [json.loads(line) for line in ended.out.splitlines()]
    assert lines == [
        {"version": 2, "changes": {}, "firings": [{"rule": "copy", "rows": [[1], [2]]}]},
        {
            "version": 3,
            "changes": {"both": {"insert": [[1], [2]], "delete": []}},
            "firings": [{"rule": "noted", "rows": [[1], [2]]}],
        },
        {"version": 4, "changes": {}},
        {"version": 5, "changes": {}},
        {
            "version": 6,
            "changes": {"both": {"insert": [[7]], "delete": []}},
            "firings": [{"rule": "copy", "rows": [[7]]}, {"rule": "noted", "rows": [[7]]}],
        },
        {"version": 7, "changes": {}},
    ]


def test_rules_without_end_end_the_run(upshot: Run, write: Write) -> None:
    program = write("up.dl", ".decl n(x: number) .rule up(X) on insert n(X) do insert n(X + 1).")
    changes = write("c.ndjson", '{"insert": {"n": [[1]]}}\n')
    ended = upshot("watch", program, "--changes", changes)
    assert ended.code == 1
    assert "error[runaway-rules]" in ended.err


def test_a_function_that_is_not_there_is_named_when_the_rule_fires(watch: Run, write: Write) -> None:
    ended = watch('{"insert": {"stock": [["a", 3]]}}', actions=write("other.py", "def tel(rows): ..."))
    assert ended.code == 1
    assert "rule `ordered` calls `tell`, which is not registered" in ended.err
    assert "did you mean `tel`?" in ended.err


def test_without_the_option_the_cure_is_named(upshot: Run, files: tuple[Path, Path], write: Write) -> None:
    changes = write("changes.ndjson", '{"insert": {"stock": [["a", 3]]}}\n')
    ended = upshot("watch", files[0], "--changes", changes)
    assert ended.code == 1
    assert "--actions FILE.py" in ended.err


def test_a_call_that_fails_after_the_commit_is_reported_and_the_run_goes_on(watch: Run, write: Write) -> None:
    actions = write("failing.py", "def tell(rows):\n    raise ConnectionError('nobody there')\n")
    ended = watch('{"insert": {"stock": [["a", 3]]}}', '{"insert": {"stock": [["b", 30]]}}', actions=actions)
    assert len(ended.out.splitlines()) == 2
    assert ended.code == 1
    assert "error[action-failed]: `tell`, called by rule `ordered`, failed: ConnectionError: nobody there" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("def tell(rows:\n    pass\n", "bad.py`: SyntaxError"),
        ("import json\n\nimport no_such_module\n", "bad.py`: ModuleNotFoundError"),
        ("def f():\n    return 1 / 0\nf()\n", "bad.py`: ZeroDivisionError"),
        ("raise SystemExit(3)\n", "bad.py`: SystemExit"),
        ("from json import dumps\nx = 1\n", "has no public function"),
    ],
)
def test_a_file_that_is_no_good_is_refused_before_anything_happens(
    watch: Run, write: Write, content: str, words: str
) -> None:
    ended = watch('{"insert": {"stock": [["a", 3]]}}', actions=write("bad.py", content))
    assert (ended.code, ended.out) == (1, "")
    assert words in ended.err


def test_the_line_that_could_not_be_imported_is_shown(watch: Run, write: Write) -> None:
    ended = watch("{}", actions=write("bad.py", "import json\n\nimport no_such_module\n"))
    assert "bad.py:3:1" in ended.err
    assert "3 | import no_such_module" in ended.err


def test_a_missing_file_is_wrong_usage(watch: Run, tmp_path: Path) -> None:
    ended = watch("{}", actions=tmp_path / "nothing.py")
    assert ended.code == 2
    assert "nothing.py` does not exist" in ended.err
    assert watch("{}", actions=tmp_path).code == 2


def test_a_file_may_import_its_neighbors(watch: Run, write: Write) -> None:
    write("beside_it.py", "word = 'hello'")
    actions = write("far.py", "import sys\nimport beside_it\ndef tell(rows):\n    sys.stderr.write(beside_it.word)\n")
    assert "hello" in watch('{"insert": {"stock": [["a", 3]]}}', actions=actions).err


def test_run_fires_rules_for_what_it_loads(upshot: Run, files: tuple[Path, Path], write: Write, tmp_path: Path) -> None:
    write("facts/stock.facts", "a\t3\nb\t30\n")
    ended = upshot("run", files[0], "-F", tmp_path / "facts", "-D", "-", "--actions", files[1])
    assert (ended.code, ended.out) == (0, "order\t1\n")
    assert 'told [["a", 97]]' in ended.err


def test_what_if_tells_which_rules_would_fire_and_calls_nothing_after(
    upshot: Run, files: tuple[Path, Path], write: Write
) -> None:
    changes = write("changes.ndjson", '{"insert": {"stock": [["a", 3]]}}\n')
    ended = upshot("what-if", files[0], "--changes", changes, "--actions", files[1], "--format", "json")
    assert [each["rule"] for each in json.loads(ended.out)["firings"]] == ["reorder", "ordered"]
    assert "told" not in ended.err
    text = upshot("what-if", files[0], "--changes", changes, "--actions", files[1])
    assert '+low("a")\n// firing: reorder("a", 97)\n// firing: ordered("a", 97)\n' in text.out


def test_the_session_shows_firings_and_explains_rules(process: Run, files: tuple[Path, Path]) -> None:
    typed = '+stock("a", 3).\n:list\n:explain reorder\n:drop judged\n'
    ended = process("repl", files[0], "--actions", files[1], stdin=typed)
    assert ended.code == 0, ended.err
    assert 'firing: reorder("a", 97)\n' in ended.out
    assert "reorder  active rule\n" in ended.out
    assert "active rule, turn 1 of 3" in ended.out
    assert 'told [["a", 97]]' in ended.err
    json_lines = process("repl", files[0], "--actions", files[1], "--format", "json", stdin='+stock("a", 3).\n')
    assert json.loads(json_lines.out.splitlines()[-1])["firings"][0] == {"rule": "reorder", "rows": [["a", 97]]}


def test_explain_takes_the_name_of_a_rule(upshot: Run, files: tuple[Path, Path]) -> None:
    ended = upshot("explain", files[0], "--view", "reorder")
    assert "reorder(I: symbol, N: number): active rule" in ended.out
    assert "reorder → ordered by inserting into order" in ended.out
    data = json.loads(upshot("explain", files[0], "--format", "json").out)
    assert list(data["rules"]) == ["reorder", "judged", "ordered"]
    wrong = upshot("explain", files[0], "--view", "reordr")
    assert wrong.code == 2
    assert "did you mean `reorder`?" in wrong.err


def test_check_lists_rules_and_warns_of_cycles(upshot: Run, files: tuple[Path, Path], write: Write) -> None:
    ended = upshot("check", files[0])
    assert ended.code == 0
    assert "3 active rules" in ended.out
    assert "rule reorder(I: symbol, N: number): deferred, strict" in ended.out
    cyclic = upshot("check", write("up.dl", ".decl n(x: number) .rule up(X) on insert n(X) do insert n(X + 1)."))
    assert "warning[rules-may-not-terminate]" in cyclic.err


def test_check_looks_at_the_calls_if_it_is_given_the_functions(
    upshot: Run, files: tuple[Path, Path], write: Write
) -> None:
    assert upshot("check", files[0], "--actions", files[1]).code == 0
    other = write("other.py", "def tell(): pass\n")
    ended = upshot("check", files[0], "--actions", other)
    assert ended.code == 1
    assert "rule `ordered` calls `tell` with the list of its rows, which does not match its parameters" in ended.err
    assert "rule `judged` calls `judge`, which is not registered" in ended.err
    assert ended.err.endswith("stock.dl: 2 errors, 1 warning\n")
    assert upshot("check", files[0], "--actions", files[0].parent / "none.py").code == 2
