"""watch: transactions in, exact changes out."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Ended, command, environment_with

Run = Callable[..., Ended]
Write = Callable[[str, str | bytes], Path]


@pytest.fixture
def watch(upshot: Run, closure: Path, write: Write) -> Run:
    """Runs `watch` over the closure program with these lines of changes."""

    def run(*lines: str, more: tuple[str, ...] = (), program: str = "") -> Ended:
        changes = write("changes.ndjson", "".join(line + "\n" for line in lines))
        file = write("more.dl", closure.read_text() + program) if program else closure
        return upshot("watch", file, "-F", closure.parent / "facts", "--changes", changes, *more)

    return run


def versions(ended: Ended) -> list[int]:
    return [json.loads(line)["version"] for line in ended.out.splitlines()]


def test_each_transaction_gives_one_line_with_the_exact_changes(watch: Run) -> None:
    ended = watch(
        '{"insert": {"edge": [[4, 1], [4, 5]]}, "delete": {"edge": [[1, 2]]}}', '{"delete": {"edge": [[9, 9]]}}'
    )
    first = (
        '"changes": {"closure": {"insert": [[3,1],[3,5],[2,1],[2,5],[4,1],[4,5]], "delete": [[1,2],[1,3],[1,4]]}}}'
    ).replace("[[3,1],[3,5],[2,1],[2,5],[4,1],[4,5]]", "[[2,1],[2,5],[3,1],[3,5],[4,1],[4,5]]")
    lines = ended.out.splitlines()
    assert ended.code == 0
    assert lines[0].endswith(first)
    assert lines[1].endswith('"changes": {}}')


def test_a_commit_has_the_next_version_and_an_idle_transaction_has_none(watch: Run) -> None:
    ended = watch(
        '{"insert": {"edge": [[4, 5]]}}', "{}", '{"insert": {"edge": [[4, 5]]}}', '{"insert": {"edge": [[5, 6]]}}'
    )
    first = versions(ended)[0]
    assert versions(ended) == [first, first, first, first + 1]


def test_a_fact_in_both_parts_changes_nothing(watch: Run) -> None:
    ended = watch('{"insert": {"edge": [[1, 2], [7, 8]]}, "delete": {"edge": [[7, 8], [1, 2]]}}')
    assert json.loads(ended.out)["changes"] == {}


def test_a_repaired_violation_is_noted_on_stderr(watch: Run) -> None:
    program = ".deny loop(X) :- edge(X, X).\n.deny loop on_violation=warn\n"
    ended = watch('{"insert": {"edge": [[9, 9]]}}', '{"delete": {"edge": [[9, 9]]}}', program=program)
    assert [json.loads(line)["changes"]["loop"] for line in ended.out.splitlines()] == [
        {"insert": [[9]], "delete": []},
        {"insert": [], "delete": [[9]]},
    ]
    assert ended.err.count("constraint-violated") == 1
    assert "note[violation-repaired]: constraint `loop` is no longer violated by loop(9)" in ended.err


def test_base_relations_are_not_repeated_and_constraints_that_warn_are_views(watch: Run) -> None:
    program = ".deny loop(X) :- closure(X, X).\n.deny loop on_violation=warn\n"
    ended = watch('{"insert": {"edge": [[4, 4]]}}', program=program)
    assert json.loads(ended.out)["changes"].keys() == {"closure", "loop"}
    assert "warning[constraint-violated]" in ended.err
    assert ended.code == 0


BAD = [
    ("nonsense", "not-json"),
    ('{"insert": {"edge": [[1, "x"]]}}', "wrong-type"),
    ('{"insert": {"nodes": [[1]]}}', "unknown-relation"),
    ('{"insert": {"closure": [[1, 2]]}}', "not-a-base-relation"),
    ('{"insert": {"edge": [[5, 6], [4, 4]]}}', "constraint-violated"),
    ('{"insert": {"owner": [[1, 1], [1, 2]], "edge": [[5, 6]]}}', "key-violation"),
]
MORE = ".deny loop(X) :- closure(X, X).\n.decl owner(x: number, y: number) key(x)\n"
GOOD = '{"insert": {"edge": [[4, 5]]}}'


@pytest.mark.parametrize(("line", "slug"), BAD)
def test_a_bad_line_ends_the_run_and_what_was_committed_stands(
    watch: Run, tmp_path: Path, line: str, slug: str
) -> None:
    ended = watch(GOOD, line, GOOD, program=MORE)
    assert ended.code == 1
    assert len(ended.out.splitlines()) == 1
    assert f"error[{slug}]: {tmp_path / 'changes.ndjson'}:2: " in ended.err


@pytest.mark.parametrize(("line", "slug"), BAD)
def test_a_bad_line_can_be_passed_over_and_leaves_nothing_behind(
    watch: Run, tmp_path: Path, line: str, slug: str
) -> None:
    ended = watch(GOOD, line, '{"insert": {"edge": [[6, 7]]}}', more=("--on-error", "continue"), program=MORE)
    assert ended.code == 1
    first, second, third = map(json.loads, ended.out.splitlines())
    assert second["error"]["slug"] == slug
    assert (second["error"]["file"], second["error"]["line"]) == (str(tmp_path / "changes.ndjson"), 2)
    assert third["version"] == first["version"] + 1
    assert third["changes"] == {"closure": {"insert": [[6, 7]], "delete": []}}


def test_errors_can_be_json(watch: Run) -> None:
    ended = watch(GOOD, "nonsense", more=("--format", "json"))
    found = json.loads(ended.err)
    assert (found["slug"], found["line"], found["column"]) == ("not-json", 2, 1)


def test_values_of_every_type_go_in_and_come_out(upshot: Run, write: Write) -> None:
    types = (
        "i: number, u: unsigned, f: float, s: symbol, b: boolean, d: date, t: timestamp, m: decimal(8,2), n: symbol?"
    )
    head = "I, U, F, S, B, D, T, M, N"
    program = write("a.dl", f".decl r({types})\n.decl v({types})\nv({head}) :- r({head}).\n")
    row = [-1, 2**63 + 1, 0.5, 'tab\t"é"', True, "2026-01-31", "2026-01-31T10:00:00+02:00", 12.5, None]
    changes = write("c.ndjson", json.dumps({"insert": {"r": [row]}}))
    ended = upshot("watch", program, "--changes", changes)
    assert (ended.code, ended.err) == (0, "")
    (found,) = json.loads(ended.out)["changes"]["v"]["insert"]
    assert found == [*row[:6], "2026-01-31T08:00:00Z", "12.50", None]


def test_a_transaction_on_a_pipe_is_answered_at_once(closure: Path) -> None:
    with subprocess.Popen(
        command("watch", closure, "-F", closure.parent / "facts", "--changes", "-"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment_with(),
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        for number in range(4, 7):
            running.stdin.write(json.dumps({"insert": {"edge": [[number, number + 1]]}}).encode() + b"\n")
            running.stdin.flush()
            assert [number, number + 1] in json.loads(running.stdout.readline())["changes"]["closure"]["insert"]
        running.stdin.close()
        assert running.wait(300) == 0


def test_an_empty_change_file_is_fine(watch: Run) -> None:
    assert watch() == Ended(0, "", "")


def test_without_a_fact_directory_relations_may_start_empty(process: Run, closure: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    ended = process("watch", closure, "--changes", "-", stdin=GOOD, cwd=tmp_path / "elsewhere")
    assert json.loads(ended.out)["changes"] == {"closure": {"insert": [[4, 5]], "delete": []}}
    ended = process("watch", closure, "--changes", "-", "-F", tmp_path / "elsewhere", stdin=GOOD)
    assert (ended.code, ended.out) == (1, "")
    assert "error[missing-facts]" in ended.err
