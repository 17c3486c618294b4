"""`python -m upshot.engine.local.warm`: compile the kernel now and keep the machine code on disk."""

from __future__ import annotations

import sys
import time

from upshot.engine.local.kernel.code_cache import sole_compiler
from upshot.engine.local.kernel.machine import MACHINE


def main() -> None:
    start = time.perf_counter()
    with sole_compiler():
        MACHINE.compile()
    sys.stderr.write(f"kernel ready in {time.perf_counter() - start:.1f} s\n")


if __name__ == "__main__":
    main()
