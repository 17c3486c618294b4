"""`upshot bench`: the project's own benchmarks, which live beside the package and not in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import typer

import upshot
from upshot.cli.output.terminal import Terminal
from upshot.core.errors import UsageError


def bench(terminal: Terminal, context: typer.Context) -> int:
    """Run `python -m bench` at the root of the checkout that this package is imported from; return its exit code."""
    root = checkout()
    if root is None:
        raise UsageError(
            "the installed package does not include the benchmarks",
            code="no-checkout",
            help="clone the repository and run `make bench` there",
        )
    return subprocess.run([sys.executable, "-m", "bench", *context.args], cwd=root, check=False).returncode


def checkout() -> Path | None:
    """The root of the source tree, if the package is imported from one that has `bench/`."""
    package = Path(upshot.__file__).resolve().parent
    root = package.parents[1]
    return root if package.parent.name == "src" and (root / "bench" / "__main__.py").is_file() else None
