"""`python -m bench [NAME…] [--quick] [--large]`: exit code 0 when every answer was right, 1 when one was wrong."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from functools import partial
from pathlib import Path

from rich.console import Console

from bench.benches import BENCHES
from bench.process import Runner
from bench.report import Scale, show

RESULTS = Path(__file__).parent / "results"
PATIENCE = 4 * 3600.0
"""Seconds that a contender has for an input of any size."""
IDLE = 0.7
"""A load average above this means that somebody else is using the machine."""


def main(argv: list[str]) -> int:
    options = _options(argv)
    console = Console(width=None if sys.stdout.isatty() else 130)
    progress = Console(stderr=True)
    results = RESULTS / time.strftime("%Y%m%d-%H%M%S.jsonl", time.gmtime())
    scale = Scale(quick=options.quick, large=options.large, rows=options.rows)
    patience = PATIENCE if scale.large or scale.rows else Runner.PATIENCE
    say = partial(progress.print, highlight=False)
    runner = Runner(results, lambda words: say(f"[dim]… {words}[/]"), patience=patience)
    _header(console, scale)
    wrong = 0
    for name in options.names or BENCHES:
        report = BENCHES[name](runner, scale)
        show(report, console)
        wrong += len(report.wrong)
    console.print(f"every single answer: {os.path.relpath(results)}", highlight=False)
    if wrong:
        console.print(f"[bold red]{wrong} wrong or failed[/]")
    return 1 if wrong else 0


def _header(console: Console, scale: Scale) -> None:
    console.print(f"{os.cpu_count()} cores, {_memory()} GiB, {platform.system()}, Python {platform.python_version()}")
    if scale.quick:
        console.print("quick: small inputs; the targets are stated for the full ones")
    busy = os.getloadavg()[0]
    if busy > IDLE:
        console.print(
            f"[yellow]other work is running (load {busy:.1f}): the figures will not repeat[/]", highlight=False
        )
    console.print()


def _options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Upshot and its peers on the same data.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones: {', '.join(BENCHES)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="small inputs: a minute or two")
    parser.add_argument(
        "--large", action="store_true", help="also the largest inputs (B8 with ten million items, B9 unstored × 100)"
    )
    sizes = "the size of B15 (default: 1000000; large: 100000000), of B7 and B19 (default: 10000000)"
    parser.add_argument("--rows", type=int, metavar="N", help=sizes)
    options = parser.parse_args(argv)
    unknown = [name for name in options.names if name not in BENCHES]
    if unknown:
        parser.error(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(BENCHES)}")
    return options


def _memory() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
