"""check, run, rewrite, explain, what-if, verify, bench."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import EXAMPLES, Ended
from upshot.cli.commands import bench as bench_command

Run = Callable[..., Ended]
Write = Callable[[str, str | bytes], Path]


# ---- check -----------------------------------------------------------------------------------------


def test_check_counts_what_is_declared(upshot: Run, closure: Path) -> None:
    assert upshot("check", closure) == Ended(0, f"{closure}: ok, 1 base relation, 1 view\n", "")
    assert upshot("check", closure, "--format", "json") == Ended(0, "", "")


def test_check_reports_all_mistakes_on_stderr(upshot: Run, write: Write) -> None:
    file = write("bad.dl", ".decl a(x: number)\na(X) :- b(X).\na(Y) :- a(Z).\n")
    ended = upshot("check", file)
    assert ended.code == 1
    assert ended.out == ""
    assert "error[unknown-relation]" in ended.err
    assert "error[unsafe-variable]" in ended.err
    assert ended.err.endswith(f"{file}: 2 errors\n")


def test_check_gives_its_findings_as_data_in_json(upshot: Run, write: Write) -> None:
    ended = upshot("check", write("bad.dl", '.pragma "x"\n.decl a(x: number)\na(X) :- b(X).\n'), "--format", "json")
    assert (ended.code, ended.err) == (1, "")
    assert "unknown-relation" in [json.loads(line)["slug"] for line in ended.out.splitlines()]


def test_check_reports_notes_of_a_program_that_is_fine(upshot: Run) -> None:
    ended = upshot("check", EXAMPLES / "souffle" / "points_to.dl")
    assert ended.code == 0
    assert "ignored-qualifier" in ended.err
    assert ended.out.endswith("ok, 4 base relations, 4 views\n")


# ---- run -------------------------------------------------------------------------------------------


def test_run_writes_files_and_prints_sizes(upshot: Run, closure: Path, tmp_path: Path) -> None:
    ended = upshot("run", closure, "-F", tmp_path / "facts", "-D", tmp_path / "out")
    assert ended == Ended(0, "closure\t6\n", "")
    assert (tmp_path / "out" / "closure.csv").read_text() == "1\t2\n1\t3\n1\t4\n2\t3\n2\t4\n3\t4\n"


def test_run_prints_with_a_dash(upshot: Run, closure: Path, tmp_path: Path) -> None:
    ended = upshot("run", closure, "--fact-dir", tmp_path / "facts", "--output-dir", "-")
    rows = "1\t2\n1\t3\n1\t4\n2\t3\n2\t4\n3\t4\n"
    assert ended == Ended(0, f"---------------\nclosure\n===============\n{rows}===============\nclosure\t6\n", "")


def test_run_prints_json_where_asked(upshot: Run, closure: Path, tmp_path: Path) -> None:
    ended = upshot("run", closure, "-F", tmp_path / "facts", "-D", "-", "--format", "json")
    first, second = map(json.loads, ended.out.splitlines())
    assert first["relation"] == "closure"
    assert first["columns"] == ["x", "y"]
    assert first["rows"] == [[1, 2], [1, 3], [1, 4], [2, 3], [2, 4], [3, 4]]
    assert second == {"relation": "closure", "size": 6}


def test_run_reads_and_writes_the_current_directory_by_default(process: Run, closure: Path, write: Write) -> None:
    write("edge.facts", "1\t1\n")
    assert process("run", "closure.dl", cwd=closure.parent) == Ended(0, "closure\t1\n", "")
    assert (closure.parent / "closure.csv").read_text() == "1\t1\n"


def test_run_needs_every_fact_file(upshot: Run, closure: Path, tmp_path: Path) -> None:
    (tmp_path / "facts" / "edge.facts").unlink()
    ended = upshot("run", closure, "-F", tmp_path / "facts", "-D", tmp_path / "out")
    assert (ended.code, ended.out) == (1, "")
    assert "error[missing-facts]" in ended.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("option", "slug"),
    [("-F missing", "no-such-directory"), ("-F closure.dl", "not-a-directory"), ("-D closure.dl", "")],
)
def test_run_needs_directories(process: Run, closure: Path, option: str, slug: str) -> None:
    ended = process("run", "closure.dl", *option.split(), cwd=closure.parent)
    assert ended.code == 2
    assert f"error[{slug or 'not-a-directory'}]" in ended.err


def test_run_names_the_bad_line_of_a_fact_file(upshot: Run, closure: Path, write: Write) -> None:
    file = write("facts/edge.facts", "1\t2\n2\tthree\n")
    ended = upshot("run", closure, "-F", file.parent)
    assert ended.code == 1
    assert f"{file}:2:3: `three` in column `y` is not an integer" in ended.err


def test_run_remarks_on_files_that_are_not_read_and_results_that_are_not_asked_for(upshot: Run, write: Write) -> None:
    write("facts/a.facts", "1\n")
    file = write("a.dl", ".decl a(x: number)\n.decl b(x: number)\nb(X) :- a(X).\n")
    ended = upshot("run", file, "-F", file.parent / "facts")
    assert ended.code == 0
    assert "warning[facts-not-read]" in ended.err
    assert "warning[no-output]" in ended.err


def test_run_ends_with_one_when_evaluation_leaves_the_range_of_a_number(upshot: Run, write: Write) -> None:
    file = write(
        "a.dl", ".decl a(x: number)\n.decl b(x: number)\na(9223372036854775807).\nb(X + 1) :- a(X).\n.output b\n"
    )
    ended = upshot("run", file, "-D", "-")
    assert (ended.code, ended.out) == (1, "")
    assert "error[overflow]" in ended.err


def test_a_view_with_rules_can_have_input_too(upshot: Run, write: Write) -> None:
    write("facts/p.facts", "7\n")
    file = write("a.dl", ".decl q(x: number)\nq(1).\n.decl p(x: number)\n.input p\np(X) :- q(X).\n.output p\n")
    ended = upshot("run", file, "-F", file.parent / "facts", "-D", "-")
    assert ended.out == "---------------\np\n===============\n1\n7\n===============\n"


# ---- rewrite ---------------------------------------------------------------------------------------

DELETIONS = """\
closure_del(X, Y) :- edge_del(X, Y).
closure_del(X, Z) :- edge_del(X, Y), closure(Y, Z).
closure_del(X, Z) :- edge(X, Y), closure_del(Y, Z).
"""


def test_rewrite_prints_the_maintenance_rules_as_a_program(upshot: Run, closure: Path, write: Write) -> None:
    ended = upshot("rewrite", closure, "--strategy", "maintenance")
    assert ended.code == 0
    lines = [line for line in ended.out.splitlines(keepends=True) if line.startswith("closure_del(")]
    assert "".join(lines) == DELETIONS
    assert upshot("check", write("rules.dl", ended.out)).code == 0


def test_rewrite_prints_one_view(upshot: Run) -> None:
    ended = upshot("rewrite", EXAMPLES / "trains.dl", "-s", "maintenance", "-v", "reach_cal")
    assert ended.code == 0
    assert "reach_cal_plus(" in ended.out
    assert "unconnected_plus(" not in ended.out


def test_rewrite_prints_counting_rules(upshot: Run) -> None:
    program = EXAMPLES / "inventory" / "inventory.dl"
    ended = upshot("rewrite", program, "-s", "counting", "-v", "low", "--format", "json")
    assert ended.code == 0
    rules = json.loads(ended.out)["rules"]
    assert {rule["phase"] for rule in rules if rule["head"].startswith("low_gain(")} == {"count"}


def test_production_rules_are_printed_by_priority(upshot: Run, closure: Path) -> None:
    ended = upshot("rewrite", closure, "--strategy", "production", "--view", "closure")
    assert ended.code == 0
    shown = [line for line in ended.out.splitlines() if line and not line.startswith("//")]
    assert [line.split(":")[0].split("-")[1] for line in shown] == [
        *["start"] * 2, *["del"] * 3, *["ri"] * 2, *["ins"] * 3,
    ]  # fmt: skip


def test_counting_is_not_for_recursive_views(upshot: Run, closure: Path) -> None:
    for arguments in ([], ["--view", "closure"]):
        ended = upshot("rewrite", closure, "-s", "counting", *arguments)
        assert (ended.code, ended.out) == (2, "")
        assert "error[strategy-not-applicable]" in ended.err


@pytest.mark.parametrize(
    ("strategy", "rule"),
    [
        ("rod", "// E1, stage 2: inserted: not in closure before the change"),
        ("epf", "// P2: potential deletions through closure"),
        ("propagation", "// U1, stage 1: insertions through closure_aux"),
        ("differencing", "// ---- changes of closure, level 1"),
    ],
)
def test_rules_without_stored_views_say_what_they_find_and_when_they_run(
    upshot: Run, closure: Path, strategy: str, rule: str
) -> None:
    ended = upshot("rewrite", closure, "--strategy", strategy)
    assert ended.code == 0
    assert rule in ended.out.splitlines()
    assert "closure_plus(" in ended.out
    told = json.loads(upshot("rewrite", closure, "-s", strategy, "--format", "json").out)
    assert (told["strategy"], told["view"], told["text"]) == (strategy, None, ended.out)
    assert all(f"{rule['head']} :- {', '.join(rule['body'])}." in ended.out for rule in told["rules"])
    assert all(name in told["relations"] for name in ("closure_plus", "edge_ins"))


def test_a_rule_in_json_has_head_body_phase_and_the_place_it_was_made_from(upshot: Run, closure: Path) -> None:
    told = json.loads(upshot("rewrite", closure, "-s", "maintenance", "--format", "json").out)
    first = next(rule for rule in told["rules"] if rule["name"] == "D2")
    assert first == {
        "name": "D2",
        "about": "closure",
        "phase": "delete",
        "finds": "deletions through closure",
        "head": "closure_del(X, Z)",
        "body": ["edge(X, Y)", "closure_del(Y, Z)"],
        "origin": {
            "source": str(closure),
            "line": first["origin"]["line"],
            "column": 1,
            "text": "closure(X, Z) :- edge(X, Y), closure(Y, Z).",
        },
    }
    assert closure.read_text().splitlines()[first["origin"]["line"] - 1] == first["origin"]["text"]
    assert told["relations"]["closure_del"] == {"x": "number", "y": "number"}
    magic = json.loads(upshot("rewrite", closure, "-s", "magic", "-q", "closure(1, Y)", "--format", "json").out)
    assert (magic["query"], magic["rules"][0]["head"]) == ("closure(1, Y)", "m_closure_bf(1)")
    (start, *_) = json.loads(upshot("rewrite", closure, "-s", "production", "--format", "json").out)["rules"]
    assert start["head"] == "ins closure(X, Y)"


@pytest.mark.parametrize("strategy", ["rod", "epf", "propagation", "differencing"])
def test_one_view_comes_with_what_was_put_in_for_it(upshot: Run, strategy: str) -> None:
    ended = upshot("rewrite", EXAMPLES / "trains.dl", "-s", strategy, "-v", "reach_cal")
    assert ended.code == 0
    assert "reach_cal_plus(" in ended.out
    assert "unconnected" not in ended.out
    assert ("// ---- changes of reach_cal_aux" in ended.out) is (strategy == "propagation")


def test_a_query_is_rewritten_by_magic_sets(upshot: Run, closure: Path) -> None:
    ended = upshot("rewrite", closure, "--strategy", "magic", "--query", "closure(1, Y)")
    assert ended.code == 0
    assert [line for line in ended.out.splitlines() if line.endswith(").") and not line.startswith("//")] == [
        "m_closure_bf(1).",
        "closure(X, Y) :- m_closure_bf(X), edge(X, Y).",
        "closure_sup(X, Y) :- m_closure_bf(X), edge(X, Y).",
        "m_closure_bf(Y) :- closure_sup(X, Y).",
        "closure(X, Z) :- closure_sup(X, Y), closure(Y, Z).",
    ]
    assert "query(" in upshot("rewrite", closure, "-s", "magic", "-q", "closure(1, Y), !edge(1, Y)").out


def test_magic_needs_a_query_and_others_take_none(upshot: Run, closure: Path) -> None:
    for arguments, slug in (
        (["-s", "magic"], "query-needed"),
        (["-s", "rod", "-q", "closure(1, Y)"], "query-not-used"),
        (["-s", "magic", "-q", "closure(1, Y)", "-v", "closure"], "query-not-used"),
    ):
        ended = upshot("rewrite", closure, *arguments)
        assert (ended.code, ended.out) == (2, "")
        assert f"error[{slug}]" in ended.err


def test_backward_forward_rules_are_printed(upshot: Run, closure: Path) -> None:
    ended = upshot("rewrite", closure, "--strategy", "bf")
    assert (ended.code, ended.err) == (0, "")
    assert "closure_gone(X, Y) :- closure_check(X, Y), !closure_proven(X, Y)." in ended.out


def test_an_unknown_strategy_is_wrong_usage(upshot: Run, closure: Path) -> None:
    ended = upshot("rewrite", closure, "--strategy", "maintainance")
    assert ended.code == 2
    assert "did you mean `maintenance`?" in ended.err
    ended = upshot("rewrite", closure, "--strategy", "foo")
    assert ended.code == 2
    assert "= help: use `--strategy maintenance` or `--strategy counting` or" in ended.err


@pytest.mark.parametrize("strategy", ["recompute", "auto"])
def test_a_strategy_without_rules_has_none_to_print(upshot: Run, closure: Path, strategy: str) -> None:
    ended = upshot("rewrite", closure, "--strategy", strategy)
    assert (ended.code, ended.out) == (2, "")
    assert f"error[strategy-without-rules]: strategy `{strategy}` has no rules to print" in ended.err


@pytest.mark.parametrize(
    ("view", "words"),
    [("closur", "did you mean `closure`?"), ("edge", "`edge` is a base relation"), ("xyz", "views: `closure`")],
)
def test_an_unknown_view_is_wrong_usage(upshot: Run, closure: Path, view: str, words: str) -> None:
    for arguments in (["rewrite", closure, "-s", "maintenance"], ["explain", closure]):
        ended = upshot(*arguments, "--view", view)
        assert (ended.code, ended.out) == (2, "")
        assert words in ended.err


# ---- explain ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["dependencies", "modules", "trains", "permissions/permissions", "inventory/inventory"]
)
def test_explain_fits_a_screen(upshot: Run, name: str) -> None:
    ended = upshot("explain", EXAMPLES / f"{name}.dl")
    assert ended.code == 0
    assert len(ended.out.splitlines()) <= 40, ended.out
    assert " :- " not in ended.out
    assert "`--full`" in ended.err
    full = upshot("explain", EXAMPLES / f"{name}.dl", "--full")
    assert len(full.out.splitlines()) > 2 * len(ended.out.splitlines())


def test_the_summary_has_strategy_rows_and_reason_of_each_view(upshot: Run, closure: Path) -> None:
    ended = upshot("explain", closure, "-F", closure.parent / "facts")
    assert ended.out.splitlines()[:3] == [
        "base relations: edge (3 rows)",
        "closure: recursive view, 6 rows, strategy maintenance",
        ended.out.splitlines()[2],
    ]
    assert ended.out.splitlines()[2].startswith("  because recursive: over-delete, rederive, insert")


def test_explain_names_strategy_reasons_and_rules(upshot: Run, closure: Path) -> None:
    ended = upshot("explain", closure, "-F", closure.parent / "facts", "--view", "closure")
    assert (ended.code, ended.err) == (0, "")
    assert "closure(x: number, y: number): recursive view, 6 rows" in ended.out
    assert "strategy maintenance" in ended.out
    assert "closure(X, Z) :- edge(X, Y), closure(Y, Z)." in ended.out


def test_explain_gives_data(upshot: Run, closure: Path) -> None:
    ended = upshot("explain", closure, "--format", "json")
    assert json.loads(ended.out)["relations"]["closure"]["strategy"] == "maintenance"


def test_relations_without_a_file_of_facts_are_named(upshot: Run) -> None:
    ended = upshot("why-not", EXAMPLES / "dependencies.dl", 'vulnerable("tls")')
    assert "warning[missing-facts]: no fact files for `depends`, `runs`" in ended.err


def test_explain_draws(upshot: Run, tmp_path: Path) -> None:
    picture = tmp_path / "network.svg"
    ended = upshot("explain", EXAMPLES / "dependencies.dl", "--svg", picture)
    assert (ended.code, ended.out) == (0, "")
    assert ended.err.endswith(f"wrote {picture}\n")
    drawn = ET.fromstring(picture.read_text())
    assert drawn.tag.endswith("svg")
    text = "".join(drawn.itertext())
    assert all(name in text for name in ("depends", "depends_on", "exposed", "safe", "exposed_count", "cycle"))
    printed = upshot("explain", EXAMPLES / "dependencies.dl", "--svg", "-")
    assert printed.out == picture.read_text()


def test_a_picture_that_cannot_be_written_is_wrong_usage(upshot: Run, closure: Path, tmp_path: Path) -> None:
    ended = upshot("explain", closure, "--svg", tmp_path / "missing" / "network.svg")
    assert ended.code == 2
    assert "error[cannot-write]" in ended.err


# ---- what-if ---------------------------------------------------------------------------------------

CHANGES = '{"insert": {"edge": [[4, 5]]}}\n{"delete": {"edge": [[1, 2]]}}\n{"insert": {"edge": [[1, 2]]}}\n'


def test_what_if_asks_about_each_line_on_its_own(upshot: Run, closure: Path, write: Write) -> None:
    changes = write("c.ndjson", CHANGES)
    ended = upshot("what-if", closure, "-F", closure.parent / "facts", "--changes", changes)
    assert ended.code == 0
    assert ended.out == (
        f"// {changes}:1\n+closure(1, 5)\n+closure(2, 5)\n+closure(3, 5)\n+closure(4, 5)\n"
        f"// {changes}:2\n-closure(1, 2)\n-closure(1, 3)\n-closure(1, 4)\n"
        f"// {changes}:3\n// no view changed\n"
    )


def test_what_if_gives_data_and_violations(upshot: Run, closure: Path, write: Write) -> None:
    program = write("a.dl", closure.read_text() + ".deny loop(X) :- closure(X, X).\n")
    changes = write("c.ndjson", '{"insert": {"edge": [[4, 4]]}}\n{}\n')
    ended = upshot("what-if", program, "-F", closure.parent / "facts", "--changes", changes, "--format", "json")
    first, second = map(json.loads, ended.out.splitlines())
    assert (ended.code, first["violations"]) == (0, {"loop": [[4]]})
    assert first["changes"]["loop"] == {"insert": [[4]], "delete": []}
    assert second == {"changes": {}, "violations": {}}
    ended = upshot("what-if", program, "-F", closure.parent / "facts", "--changes", changes)
    assert f"warning[would-violate]: {changes}:1: would violate `loop`: loop(4)" in ended.err


def test_what_if_names_a_bad_line(upshot: Run, closure: Path, write: Write) -> None:
    changes = write("c.ndjson", '{}\n{"insert": {"closure": [[1, 2]]}}\n')
    ended = upshot("what-if", closure, "-F", closure.parent / "facts", "--changes", changes)
    assert ended.code == 1
    assert f"error[not-a-base-relation]: {changes}:2:" in ended.err


# ---- verify ----------------------------------------------------------------------------------------


def test_verify_compares_after_the_transactions(upshot: Run, closure: Path, write: Write) -> None:
    facts, changes = closure.parent / "facts", write("c.ndjson", CHANGES)
    assert upshot("verify", closure, "-F", facts) == Ended(0, "ok: 1 view with 6 rows equals its recomputation\n", "")
    ended = upshot("verify", closure, "-F", facts, "--changes", changes)
    assert ended.out == "ok: 1 view with 10 rows equals its recomputation after 3 transactions\n"
    ended = upshot("verify", closure, "-F", facts, "-c", changes, "--format", "json")
    assert json.loads(ended.out) == {"ok": True, "transactions": 3, "views": ["closure"], "rows": 10}


def test_verify_stops_at_a_bad_transaction(upshot: Run, closure: Path, write: Write) -> None:
    changes = write("c.ndjson", "{}\nnonsense\n")
    ended = upshot("verify", closure, "-F", closure.parent / "facts", "--changes", changes)
    assert (ended.code, ended.out) == (1, "")
    assert f"{changes}:2: invalid JSON" in ended.err


# ---- bench -----------------------------------------------------------------------------------------


def test_bench_needs_a_checkout(upshot: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_command, "checkout", lambda: None)
    ended = upshot("bench", "--anything")
    assert ended.code == 2
    assert "error[no-checkout]" in ended.err


def test_bench_passes_its_arguments_on(
    upshot: Run, write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write("bench/__main__.py", "import sys; print(sys.argv[1:]); sys.exit(3)")
    monkeypatch.setattr(bench_command, "checkout", lambda: tmp_path)
    ended = upshot("bench", "b1", "--quick")
    assert (ended.code, ended.out) == (3, "['b1', '--quick']\n")


def test_what_if_tells_what_rules_would_change_in_base_relations(upshot: Run, write: Write) -> None:
    program = write(
        "stock.dl",
        """
        .decl stock(item: symbol, n: number)  .decl orders(item: symbol)  .decl low(item: symbol)
        low(I) :- stock(I, N), N < 3.
        .rule reorder(I) on insert low(I) do insert orders(I).
        .deny negative(I) :- stock(I, N), N < 0.
        """,
    )
    changes = write("changes.ndjson", '{"insert": {"stock": [["nail", -1], ["screw", 9]]}}\n')
    ended = upshot("what-if", program, "--changes", changes)
    assert '+orders("nail")' in ended.out.splitlines()
    assert '+low("nail")' in ended.out.splitlines()
    assert '// firing: reorder("nail")' in ended.out.splitlines()
    assert not [line for line in ended.out.splitlines() if "stock" in line]
    assert "would violate `negative`" in ended.err
    ended = upshot("what-if", program, "--changes", changes, "--format", "json")
    assert json.loads(ended.out)["changes"] == {
        "orders": {"insert": [["nail"]], "delete": []},
        "low": {"insert": [["nail"]], "delete": []},
        "negative": {"insert": [["nail"]], "delete": []},
    }


def test_query_warns_of_a_variable_that_is_probably_text(upshot: Run, tmp_path: Path) -> None:
    file = tmp_path / "access.dl"
    file.write_text('.decl access(p: symbol, r: symbol)\naccess("ann", "read").\n')
    ended = upshot("query", file, "access(ann, R)")
    assert (ended.code, ended.out) == (0, "ann\tread\n")
    assert "warning[unquoted-constant]: `ann` is a variable that occurs once" in ended.err
    assert upshot("query", file, 'access("ann", R)').err == ""
