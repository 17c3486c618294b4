"""Differential Dataflow: a small Rust program in `bench/peers/differential`, built when cargo is there; two workers."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from bench.contenders.shortest_paths import weighted_edges
from bench.tasks import Answer, Task

PEER = Path(__file__).resolve().parent.parent / "peers" / "differential"


def run(task: Task) -> Answer:
    """The edges, the start and the changes of `shortest_paths`; the rows after every change are counted."""
    cargo = shutil.which("cargo")
    if cargo is None:
        return Answer(missing="cargo is not installed")
    edges = weighted_edges(task.options["nodes"], task.options["edges"])
    places = np.random.default_rng(7).permutation(len(edges))[: task.options["changes"]]
    target = Path(os.environ.get("CARGO_TARGET_DIR", PEER / "target"))
    command = [cargo, "build", "--release", "--manifest-path", str(PEER / "Cargo.toml")]
    built = subprocess.run(command, env={**os.environ, "CARGO_TARGET_DIR": str(target)}, capture_output=True, text=True)
    if built.returncode != 0:
        return Answer(missing=f"cargo cannot build it: {built.stderr.strip().splitlines()[-1]}")
    with tempfile.TemporaryDirectory() as folder:
        for name, rows in (("edge", edges), ("seed", np.array([[0, 0]])), ("change", edges[places])):
            np.savetxt(Path(folder) / f"{name}.facts", rows, fmt="%d", delimiter="\t")
        binary = target / "release" / "differential-peer"
        printed = subprocess.run([binary, "least", folder], check=True, capture_output=True, text=True).stdout
    return _answer(printed)


def _answer(printed: str) -> Answer:
    """Each worker prints the seconds and its rows of every step: a step takes as long as the slower one."""
    steps: dict[str, dict[str, list[tuple[float, int]]]] = {"load": {}, "delete": {}, "insert": {}}
    for line in printed.splitlines():
        kind, worker, seconds, rows = line.split("\t")
        steps[kind].setdefault(worker, []).append((float(seconds), int(rows)))
    joined = {
        kind: [(max(t for t, _ in each), sum(n for _, n in each)) for each in zip(*workers.values(), strict=True)]
        for kind, workers in steps.items()
    }
    ((seconds, size),) = joined["load"]
    if any(rows != size for _, rows in joined["insert"]):
        raise AssertionError("other numbers of rows after an edge came back")
    return Answer(seconds, size, times={kind: [t for t, _ in joined[kind]] for kind in ("delete", "insert")})
