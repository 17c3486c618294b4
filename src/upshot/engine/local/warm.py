"""`python -m upshot.engine.local.warm`: compile the kernel and store the machine code on disk."""

from __future__ import annotations

import sys
import time

from upshot.engine.local.kernel.code_cache import sole_compiler
from upshot.engine.local.kernel.machine import MACHINE


def main() -> bool:
    """Return False if a resource is exhausted; a warning names it."""
    start = time.perf_counter()
    with sole_compiler():
        MACHINE.compile()
    if MACHINE.is_compiled:
        sys.stderr.write(f"kernel ready in {time.perf_counter() - start:.1f} s\n")
    return MACHINE.is_compiled


if __name__ == "__main__":
    sys.exit(not main())
