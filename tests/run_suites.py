"""Runs the suites, each in its own pytest process, as many at a time as there are cores and one that waits, and prints
a table of them.

    python -m tests.run_suites                  every suite, the slice that `make test` promises
    python -m tests.run_suites --fast           small slices, without tests marked slow or deep, and types and layers
    python -m tests.run_suites --soak           everything: large slices, random seed, tests marked deep
    python -m tests.run_suites --soak --minutes 60
                                                the tests marked deep, and the files with random cases, again and again,
                                                each round with the next seed, until the time is up
    python -m tests.run_suites sql docs         only these

How many random cases run and from which seed is in UPSHOT_CASES and UPSHOT_SEED; both are printed, so that any run can
be repeated.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.missing import missing_for_browser, missing_for_spark

ROOT = Path(__file__).resolve().parent.parent
SEED = 20260131
CASES = 120
"""Random cases of `make test`, as in `tests/properties/settings.py`; `make soak` takes more."""


@dataclass(frozen=True, slots=True)
class Suite:
    """Tests that run in one process: those of `paths`, or of the folder with its name. `budget` is how many seconds it
    should take in `make test` on two cores; a hanging one is ended at eight times that. `unless` names why a suite
    cannot run here, when it cannot. What is not `quick` is left to `make test` by `make check`, which says so, and what
    is `deep` to `make soak`. Of a suite with a `share` only those files run, unless it is soaked without an end. `tool`
    is a command that takes the place of pytest. One suite that `waits` for other processes most of its time may run
    beside as many others as there are cores."""

    name: str
    budget: int
    paths: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    unless: str = ""
    quick: bool = True
    deep: bool = False
    share: tuple[str, ...] = ()
    tool: tuple[str, ...] = ()
    waits: bool = False

    @property
    def folders(self) -> tuple[str, ...]:
        return self.paths or (f"tests/{self.name}",)


@dataclass(frozen=True, slots=True)
class Slice:
    """How much of each suite a run takes; `without` are the marks of tests that it leaves out."""

    cases: int
    seed: int
    without: tuple[str, ...]
    patience: float


@dataclass(frozen=True, slots=True)
class Outcome:
    suite: Suite
    verdict: str
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    reasons: tuple[str, ...] = ()


_NO_SPARK = missing_for_spark()

_ON_A_CLUSTER = (
    "tests/spark/test_conformance_goldens.py",
    "tests/spark/test_engine_statements.py",
    "tests/spark/test_decomposed.py",
    "tests/spark/test_without_pivot.py",
)
"""Every Spark suite can run on a cluster whose machines share nothing; a job costs three times as much there. These do
in a soak for some minutes; `make test` has `tests/cluster/test_apart.py`."""

SUITES = (
    Suite("language", 170, ("tests/values", "tests/syntax", "tests/check", "tests/plan")),
    Suite("rewrites", 90),
    Suite("engine", 200),
    Suite("goldens", 100, ("tests/goldens", "tests/scripts")),
    Suite("database", 100),
    Suite("sql", 110),
    Suite("active", 60),
    Suite("reasons", 90, quick=False),
    Suite("revise", 200, quick=False),
    Suite("properties", 180),
    Suite("cli", 150, quick=False),
    Suite("docs", 140, ("src", "tests/docs"), ("--doctest-modules",)),
    Suite("bench", 60, quick=False),
    Suite("store", 160, quick=False),
    Suite("service", 340, quick=False),
    Suite("client", 90, quick=False),
    Suite("page", 240, unless=missing_for_browser(), quick=False, waits=True),
    Suite("spark", 700, unless=_NO_SPARK),
    Suite("pipeline", 500, unless=_NO_SPARK, quick=False, waits=True),
    Suite("cluster", 350, unless=_NO_SPARK, quick=False, waits=True),
    Suite("spark-hdfs", 240, ("tests/spark",), ("--storage=hdfs",), _NO_SPARK, deep=True, share=_ON_A_CLUSTER),
)

TOOLS = (
    Suite("types", 90, ("src",), tool=("mypy",)),
    Suite("layers", 60, ("src",), tool=("lint-imports",)),
)
"""Run beside the suites of `make check`."""

_ON_SPARK = ("tests/spark", "tests/pipeline", "tests/cluster")

LANES = min(4, max(2, os.cpu_count() or 1))
"""Suites that compute at a time. With one more, tests whose searches have a time limit miss it on a busy machine."""
SPARK_LANES = 2
"""Suites on Spark that run at a time: each takes some gigabytes."""

_SOAKED = ("case_count(", "base_seed(", "seed_of(", "pytest.mark.deep", "import SHARE")
"""In the text of a test file whose random cases, or their number, can be set, or with tests that only `make soak`
runs. `SHARE` is the number of cases in a process of their own."""
_BYTE_CODE = ROOT / ".venv" / "byte-code"
"""Where processes of the tests keep their byte code: hundreds of them import the same modules."""

_PRINTING = threading.Lock()
_COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed|deselected)")
_CLOSING = re.compile(r"(\d+ \w+, )*\d+ \w+ in [\d.]+s|no tests (ran|collected)")


def main(argv: list[str]) -> int:
    # A shell that starts this in the background has it ignore interrupts, and so would every process of a test.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    options = _options(argv)
    slice_ = _slice(options)
    suites = [s for s in SUITES if (s.name in options.suites if options.suites else _is_due(s, options))]
    missing = _unlisted() + _absent(suites)
    if missing:
        print("\n".join(missing), file=sys.stderr)
        return 2
    suites += TOOLS if options.fast and not options.suites else ()
    left_out = f", without tests marked {' or '.join(slice_.without)}" if slice_.without else ""
    print(f"UPSHOT_CASES={slice_.cases} UPSHOT_SEED={slice_.seed}{left_out}")
    for command, is_deep in (("make test", False), ("make soak", True)):
        if left := [s.name for s in SUITES if s not in suites and s.deep is is_deep and not options.suites]:
            print(f"left to `{command}`: {', '.join(left)}")
    if not options.fast and any(map(_is_on_spark, suites)) and not _NO_SPARK:
        subprocess.run([sys.executable, "-m", "tests.spark_jvm"], cwd=ROOT, check=True)
    began = time.monotonic()
    if options.minutes:
        outcomes = _rounds(suites, slice_, options.extra, began + 60 * options.minutes)
    else:
        outcomes = _run_all(suites, slice_, options.extra)
    return _report(outcomes, slice_, time.monotonic() - began)


def _options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run the test suites.")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(s.name for s in SUITES))
    how_much = parser.add_mutually_exclusive_group()
    how_much.add_argument("--fast", action="store_true", help="small slices, without tests marked slow")
    how_much.add_argument("--soak", action="store_true", help="large slices, random seed")
    parser.add_argument("--minutes", type=float, default=0, help="with --soak: rounds of random cases for so long")
    parser.add_argument("--extra", action="append", default=[], metavar="ARG", help="handed to pytest")
    options = parser.parse_args(argv)
    unknown = set(options.suites) - {s.name for s in SUITES}
    if unknown:
        parser.error(f"no such suite: {', '.join(sorted(unknown))}")
    if options.minutes and not options.soak:
        parser.error("--minutes belongs to --soak")
    return options


def _is_due(suite: Suite, options: argparse.Namespace) -> bool:
    return options.soak or (not suite.deep and (suite.quick or not options.fast))


def _slice(options: argparse.Namespace) -> Slice:
    if options.fast:
        usual = Slice(cases=20, seed=SEED, without=("slow", "deep"), patience=5.0)
    elif options.minutes:
        usual = Slice(cases=150, seed=random.SystemRandom().randrange(2**31), without=(), patience=12.0)
    elif options.soak:
        usual = Slice(cases=50_000, seed=random.SystemRandom().randrange(2**31), without=(), patience=0.0)
    else:
        usual = Slice(cases=CASES, seed=SEED, without=("deep",), patience=8.0)
    return Slice(
        cases=int(os.environ.get("UPSHOT_CASES", usual.cases)),
        seed=int(os.environ.get("UPSHOT_SEED", usual.seed)),
        without=usual.without,
        patience=usual.patience,
    )


def _unlisted() -> list[str]:
    """Folders with tests that no suite covers: a suite nobody runs is worse than none."""
    covered = {folder for suite in SUITES for folder in suite.folders}
    folders = {
        "/".join(file.relative_to(ROOT).parts[:2]) for file in (ROOT / "tests").rglob("test_*.py") if file.is_file()
    }
    return [f"{folder} is in no suite of tests/run_suites.py: add it" for folder in sorted(folders - covered)]


def _absent(suites: list[Suite]) -> list[str]:
    return [
        f"suite {s.name}: {each} does not exist" for s in suites for each in s.folders if not (ROOT / each).exists()
    ]


def _run_all(suites: list[Suite], slice_: Slice, extra: list[str]) -> list[Outcome]:
    """The long ones first, so that the lanes end together. A suite alone shows what it prints as it prints it."""
    if len(suites) == 1 or not slice_.patience:
        return [_run(suite, slice_, extra, _print) for suite in suites]
    waiting, free = sorted(suites, key=lambda suite: (not suite.tool, -suite.budget)), threading.Condition()
    running, found = list[Suite](), dict[str, Outcome]()

    def lane() -> None:
        while True:
            with free:
                while (suite := _next(waiting, running)) is None and waiting:
                    free.wait()
                if suite is None:
                    return
                waiting.remove(suite)
                running.append(suite)
            try:
                found[suite.name] = _run_quietly(suite, slice_, extra)
            finally:
                with free:
                    running.remove(suite)
                    free.notify_all()

    with ThreadPoolExecutor(LANES + 1) as lanes:
        for each in [lanes.submit(lane) for _ in range(LANES + 1)]:
            each.result()
    return [found[suite.name] for suite in suites]


def _next(waiting: list[Suite], running: list[Suite]) -> Suite | None:
    """The longest suite that may start now; one that waits does not take a core from one that computes."""
    has_core = sum(not suite.waits for suite in running) < LANES
    has_spark = sum(map(_is_on_spark, running)) < SPARK_LANES
    able = [each for each in waiting if has_spark or not _is_on_spark(each)]
    computing = [each for each in able if not each.waits] if has_core else []
    return next(iter(computing or [each for each in able if each.waits]), None)


def _is_on_spark(suite: Suite) -> bool:
    return suite.folders[0].startswith(_ON_SPARK)


def _rounds(suites: list[Suite], slice_: Slice, extra: list[str], deadline: float) -> list[Outcome]:
    """Runs the files of these suites that draw random cases or are deep, round after round, Spark's beside the others.
    Deep tests run in the first round."""
    files = [
        replace(suite, name=f"{suite.name}: {file.name}", paths=(str(file.relative_to(ROOT)),), share=())
        for suite in suites
        for folder in suite.folders
        for file in sorted((ROOT / folder).rglob("test_*.py"))
        if (suite.share and str(file.relative_to(ROOT)) in suite.share)
        or (not suite.share and any(word in file.read_text(encoding="utf-8") for word in _SOAKED))
    ]
    lanes = [[f for f in files if _is_on_spark(f) is on_spark] for on_spark in (False, True)]
    with ThreadPoolExecutor(len(lanes)) as pool:
        done = pool.map(lambda lane: _rounds_of(lane, slice_, extra, deadline), lanes)
        return [outcome for outcomes in done for outcome in outcomes]


def _rounds_of(files: list[Suite], slice_: Slice, extra: list[str], deadline: float) -> list[Outcome]:
    """One lane; the outcomes of all rounds of a file are one outcome. Each round has another order, by its seed: the
    last round ends where the time does, and no file is always behind that."""
    found: dict[str, Outcome] = {}
    for number in itertools.count() if files else ():
        for file in random.Random(slice_.seed + number).sample(files, len(files)):
            if time.monotonic() > deadline:
                return list(found.values())
            marks = ("deep",) if number else ()
            outcome = _run_quietly(file, replace(slice_, seed=slice_.seed + number, without=marks), extra)
            last = found.get(file.name)
            found[file.name] = outcome if last is None else _together(last, outcome)
    return []


def _together(first: Outcome, second: Outcome) -> Outcome:
    verdict = second.verdict if first.verdict == "passed" else first.verdict
    counts, reasons = first.counts + second.counts, dict.fromkeys(first.reasons + second.reasons)
    return Outcome(first.suite, verdict, first.seconds + second.seconds, counts, tuple(reasons))


def _run_quietly(suite: Suite, slice_: Slice, extra: list[str]) -> Outcome:
    """What the suite prints comes as a whole, when it has ended."""
    printed: list[str] = []
    try:
        return _run(suite, slice_, extra, printed.append)
    finally:
        with _PRINTING:
            _print("".join(printed))


def _print(text: str) -> None:
    print(text, end="", flush=True)


def _run(suite: Suite, slice_: Slice, extra: list[str], show: Callable[[str], None]) -> Outcome:
    show(f"\n── {suite.name} · {' '.join(suite.folders)} · seed {slice_.seed} · budget {suite.budget} s\n")
    if suite.unless:
        show(f"skipped: {suite.unless}\n")
        return Outcome(suite, "skipped", reasons=(suite.unless,))
    command = _command(suite, slice_, extra)
    environment = {**os.environ, "UPSHOT_CASES": str(slice_.cases), "UPSHOT_SEED": str(slice_.seed)}
    environment |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(_BYTE_CODE)}
    began = time.monotonic()
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    alarm = threading.Timer(suite.budget * slice_.patience, process.kill) if slice_.patience else None
    if alarm:
        alarm.start()
    closing, reasons = "", []
    assert process.stdout is not None
    for line in process.stdout:
        show(line)
        if _CLOSING.search(line):
            closing = line
        elif line.startswith("SKIPPED"):
            reasons.append(line.strip())
    code = process.wait()
    if alarm:
        alarm.cancel()
    counts = Counter({word.rstrip("s") if word == "errors" else word: int(n) for n, word in _COUNT.findall(closing)})
    return Outcome(suite, _verdict(code, slice_), time.monotonic() - began, counts, tuple(reasons))


def _command(suite: Suite, slice_: Slice, extra: list[str]) -> list[str]:
    if suite.tool:
        name, *arguments = suite.tool
        return [str(Path(sys.executable).with_name(name)), *arguments]
    command = [sys.executable, "-m", "pytest", "-q", "-rsxX", "-p", "no:cacheprovider", *suite.arguments]
    command += suite.share if suite.share and slice_.patience else suite.folders
    command += ["-m", " and ".join(f"not {mark}" for mark in slice_.without)] if slice_.without else []
    return [*command, *extra]


def _verdict(code: int, slice_: Slice) -> str:
    nothing_collected = 5
    if code == 0 or (code == nothing_collected and slice_.without):
        return "passed"
    if code < 0:
        return "killed"
    return "empty" if code == nothing_collected else "failed"


def _report(outcomes: list[Outcome], slice_: Slice, seconds: float) -> int:
    total = Counter[str]()
    width = max(12, *(len(outcome.suite.name) for outcome in outcomes))
    print(f"\nslice: UPSHOT_CASES={slice_.cases} UPSHOT_SEED={slice_.seed}")
    print(f"{'suite':<{width}} {'verdict':<8} {'seconds':>8} {'budget':>7}  tests")
    for outcome in outcomes:
        total += outcome.counts
        counts = ", ".join(f"{n} {word}" for word, n in outcome.counts.items())
        late = "  over budget" if outcome.seconds > outcome.suite.budget and slice_.patience else ""
        name, budget = outcome.suite.name, outcome.suite.budget
        print(f"{name:<{width}} {outcome.verdict:<8} {outcome.seconds:>8.1f} {budget:>7}  {counts}{late}")
    for outcome in outcomes:
        for reason in outcome.reasons:
            print(f"skipped in {outcome.suite.name}: {reason}")
    bad = [o.suite.name for o in outcomes if o.verdict not in ("passed", "skipped")]
    if bad:
        print(f"not passed: {', '.join(bad)}")
    summary = ", ".join(f"{total[w]} {w}" for w in ("failed", "error", "passed", "skipped", "xfailed") if total[w])
    print(f"==== {summary or 'no tests ran'} in {seconds:.2f}s ====")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
