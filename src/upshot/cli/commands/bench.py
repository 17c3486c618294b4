"""`upshot bench`: the project's own benchmarks, which live beside the package and not in it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import upshot
from upshot.core.errors import UsageError


def bench(arguments: Sequence[str]) -> int:
    """The exit code of `python -m bench`, run at the root of the checkout this package is imported from."""
    root = checkout()
    if root is None:
        raise UsageError(
            "the installed package does not include the benchmarks",
            code="no-checkout",
            help="clone the repository and run `make bench` there",
        )
    return subprocess.run([sys.executable, "-m", "bench", *arguments], cwd=root, check=False).returncode


def checkout() -> Path | None:
    """The root of the source tree, if the package is imported from one that has `bench/`."""
    package = Path(upshot.__file__).resolve().parent
    root = package.parents[1]
    return root if package.parent.name == "src" and (root / "bench" / "__main__.py").is_file() else None
