"""The example programs run, and print what they always printed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest

from tests.cli.conftest import EXAMPLES, Ended
from tests.docs.markdown import blocks

Run = Callable[..., Ended]

PROGRAMS = ("dependencies", "inventory", "modules", "trains")


def program(name: str) -> Path:
    """One that needs more than a program has a folder of its own."""
    folder = EXAMPLES / name
    return (folder if folder.is_dir() else EXAMPLES) / f"{name}.dl"


def told(name: str) -> list[object]:
    """The program, its facts and its changes, as commands take them."""
    folder = EXAMPLES / name
    if folder.is_dir():
        return [program(name), "-F", folder / "facts", "-c", folder / "changes.ndjson"]
    return [program(name), "-F", EXAMPLES / "facts" / name, "-c", EXAMPLES / "changes" / f"{name}.ndjson"]


def changes(upshot: Run, name: str) -> list[dict[str, dict[str, list[list[object]]]]]:
    ended = upshot("watch", *told(name))
    assert ended.code == 0, ended.err
    return [json.loads(line)["changes"] for line in ended.out.splitlines()]


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_example_is_exact_after_its_changes(upshot: Run, name: str) -> None:
    ended = upshot("verify", *told(name))
    assert ended.code == 0, ended.err


@pytest.mark.parametrize("name", ["dependencies", "inventory", "trains"])
def test_an_example_is_the_program_of_the_demo(name: str) -> None:
    packaged = files("upshot.cli.demo").joinpath(f"{name}.dl").read_text(encoding="utf-8")
    assert program(name).read_text(encoding="utf-8") == packaged


def test_modules_follow_new_imports(upshot: Run) -> None:
    first, second = changes(upshot, "modules")
    assert first["mod_dep"]["insert"] == [["A", "E"]]
    assert first["ill_os"]["insert"] == [["A", "C", "E"], ["A", "E", "C"]]
    assert second["mod_dep"]["insert"] == [["D", "A"], ["D", "C"], ["D", "E"]]
    assert second["ill_os"]["insert"] == [["D", "C", "E"], ["D", "E", "C"]]


def test_an_item_is_low_exactly_while_it_is_below_its_threshold(upshot: Run) -> None:
    found = [change.get("low") for change in changes(upshot, "inventory")]
    came, went = ({"insert": [["item1"]], "delete": []}, {"insert": [], "delete": [["item1"]]})
    assert found == [None, came, None, {"insert": [["item2"]], "delete": []}, went]


def test_the_orders_are_firings_of_the_rules(upshot: Run) -> None:
    ended = upshot("watch", *told("inventory"))
    assert [json.loads(line).get("firings", []) for line in ended.out.splitlines()] == [
        [],
        [{"rule": "reorder", "rows": [["item1", 4861]]}],
        [],
        [{"rule": "reorder", "rows": [["item2", 7211]]}],
        [{"rule": "delivered", "rows": [["item1", 4861]]}],
    ]


def test_stock_that_falls_is_ordered_once() -> None:
    """What `run.py` prints is what the README of the example shows."""
    ended = subprocess.run(
        [sys.executable, EXAMPLES / "inventory" / "run.py"], capture_output=True, text=True, timeout=300, check=True
    )
    shown = next(block.text for block in blocks(EXAMPLES / "inventory" / "README.md") if block.language == "text")
    assert ended.stdout == shown
    assert "thresholds [('item1', 140), ('item2', 290)]" in shown
    assert shown.count("reorder: [('item1'") == 1, "on crossing, not at 138"
    assert shown.count("still low: [('item1'") == 2, "a nervous rule, at 138 too"
    assert "10, " not in shown.split("a mistake")[1].split("\n")[1], "what was undone sets off nothing"


@pytest.mark.parametrize(
    ("script", "place"), [("inventory/per_item.py", 1), ("monitoring/run.py", 0)], ids=["activation", "parameters"]
)
def test_a_script_of_the_papers_prints_what_its_page_shows(script: str, place: int) -> None:
    """AMOS's rule activated item by item, and ConceptBase's modules monitored with parameters (figure 5)."""
    ended = subprocess.run([sys.executable, EXAMPLES / script], capture_output=True, text=True, timeout=300, check=True)
    page = (EXAMPLES / script).parent / "README.md"
    shown = [block.text for block in blocks(page) if block.language == "text"]
    assert ended.stdout == shown[place]


def test_a_second_path_keeps_services_exposed(upshot: Run) -> None:
    published, one_path_less, patched, cycle = changes(upshot, "dependencies")
    assert published["safe"] == {"insert": [], "delete": [["mailer"], ["reports"]]}
    assert one_path_less == {}
    assert patched["safe"] == {"insert": [["mailer"]], "delete": []}
    assert cycle["cycle"]["insert"] == [["http-router@1.4.2"], ["url-parser@3.1.0"], ["web-kit@2.0.0"]]


def test_stations_lose_and_find_their_routes(upshot: Run) -> None:
    washed_out, opened, turned = changes(upshot, "trains")
    assert washed_out["reach_cal"] == {"insert": [], "delete": [["Denver"]]}
    assert "reach_cal" not in opened
    assert turned["reach_cal"] == {"insert": [["Denver"]], "delete": []}


# ---- Soufflé's own kind of program -------------------------------------------------------------------


def souffle(upshot: Run, name: str, out: object) -> Ended:
    folder = EXAMPLES / "souffle"
    return upshot("run", folder / f"{name}.dl", "-F", folder / "facts", "-D", out)


def test_the_transitive_closure_runs_unchanged(upshot: Run, tmp_path: Path) -> None:
    assert souffle(upshot, "closure", tmp_path) == Ended(0, "path\t12\n", "")
    assert (tmp_path / "path.csv").read_text() == "".join(f"{x}\t{y}\n" for x in "abcd" for y in "bcd")


def test_a_points_to_analysis_runs_unchanged(upshot: Run, tmp_path: Path) -> None:
    ended = souffle(upshot, "points_to", tmp_path)
    assert ended.code == 0
    assert ended.out == (
        "---------------\nfan_out\n===============\nv1\t1\nv2\t1\nv3\t1\nv4\t2\nv5\t1\nv6\t1\nv7\t1\n===============\n"
        "heap_points_to\t2\n"
    )
    assert (tmp_path / "var_points_to.csv").read_text().splitlines() == [
        "v1\th1",
        "v2\th2",
        "v3\th3",
        "v4\th1",
        "v4\th2",
        "v5\th3",
        "v6\th3",
        "v7\th2",
    ]
    assert (tmp_path / "alias.csv").read_text().splitlines()[:3] == ["v\tw", "v1\tv4", "v2\tv4"]


def test_same_generation_runs_unchanged(upshot: Run, tmp_path: Path) -> None:
    ended = souffle(upshot, "same_generation", tmp_path)
    assert ended.code == 0
    assert "cousins\n===============\nAnne\tDolly\nDolly\tRalph\n===============\n" in ended.out
    assert "oldest\n===============\nByron\t1788\n===============\n" in ended.out
