"""Soufflé, compiled to C++ before the measurement, one thread; skipped if it is not on the PATH."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from bench import memory
from bench.tasks import Answer, Graph, Task

PAIR = """
.decl edge(a: {type}, b: {type})
.input edge
.decl closure(a: {type}, b: {type})
closure(X, Y) :- edge(X, Y).
closure(X, Y) :- edge(X, Z), closure(Z, Y).
.printsize closure
"""

TERNARY = """
.decl edge(a: number, b: number, l: number)
.input edge
.decl closure(a: number, b: number, l: number)
closure(X, Y, L) :- edge(X, Y, L).
closure(X, Y, L) :- edge(X, Z, L), closure(Z, Y, L).
.printsize closure
"""

SAME_GENERATION = """
.decl edge(a: number, b: number)
.input edge
.decl sg(a: number, b: number)
sg(X, Y) :- edge(P, X), edge(P, Y), X != Y.
sg(X, Y) :- edge(A, X), sg(A, B), edge(B, Y).
.printsize sg
"""


def run(task: Task) -> Answer:
    compiler = shutil.which("souffle")
    if compiler is None:
        return Answer(missing="souffle is not installed")
    if task.graph is None or task.kind not in ("closure", "same_generation"):
        return Answer(missing="no incremental maintenance")
    if task.graph.form == "large":
        return Answer(missing="32-bit numbers unless built for 64")
    with tempfile.TemporaryDirectory() as folder:
        return _compiled(compiler, task.graph, _program(task), Path(folder))


def _program(task: Task) -> str:
    assert task.graph is not None
    if task.kind == "same_generation":
        return SAME_GENERATION
    if task.graph.form == "ternary":
        return TERNARY
    return PAIR.format(type="symbol" if task.graph.form == "text" else "number")


def _compiled(compiler: str, graph: Graph, program: str, folder: Path) -> Answer:
    """The time includes reading the facts, which the compiled program does not time separately."""
    (folder / "program.dl").write_text(program)
    rows = zip(*(list(column) for column in graph.columns()), strict=True)
    (folder / "edge.facts").write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))
    binary = folder / "program"
    subprocess.run([compiler, "-o", binary, folder / "program.dl"], check=True, capture_output=True)
    before = memory.reset_peak()
    began = time.perf_counter()
    with subprocess.Popen([binary, "-F", folder, "-D", folder], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - began
    if process.returncode != 0:
        raise RuntimeError(f"the compiled program ended with {process.returncode}")
    # The child's own peak; what Linux carries over from this process is no more than `before`.
    used = usage.ru_maxrss * 1024
    return Answer(seconds, int(printed.split()[-1]), used, max(used, before))
