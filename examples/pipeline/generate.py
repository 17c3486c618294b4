"""Writes the data of the example: `python generate.py` the first files, `python generate.py 2` the next change file.

Modules form layers; a module imports procedures of the layer below it.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

LAYERS, MODULES, IMPORTS = 6, 40, 3
LAKE = Path(__file__).parent / "lake"


def main(number: int) -> None:
    chance = random.Random(number)
    procedures = {f"p{layer}_{i}": f"m{layer}_{i}" for layer in range(LAYERS) for i in range(MODULES)}
    if number == 1:
        write({"procedure": list(procedures), "module": list(procedures.values())}, LAKE / "defined_in/all.parquet")
    count = MODULES * IMPORTS if number == 1 else 5
    pairs = {_import(chance, layer) for layer in range(1, LAYERS) for _ in range(count)}
    columns = {"module": [m for m, _ in pairs], "procedure": [p for _, p in pairs], "_change": [1] * len(pairs)}
    write(columns, LAKE / f"import/{number:04}.parquet")


def _import(chance: random.Random, layer: int) -> tuple[str, str]:
    return f"m{layer}_{chance.randrange(MODULES)}", f"p{layer - 1}_{chance.randrange(MODULES)}"


def write(columns: dict[str, list[str] | list[int]], file: Path) -> None:
    """Under another name first: a pipeline that is running must not see half a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f"_{file.name}")
    pq.write_table(pa.table(columns), draft)
    draft.rename(file)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
