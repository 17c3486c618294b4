"""Stock falls, and orders go out: once when a threshold is crossed, never for what was undone.

    python examples/inventory/run.py

The program is `inventory.dl`; the thresholds of its two items are 140 and 290.
"""

from __future__ import annotations

from pathlib import Path

import upshot

HERE = Path(__file__).parent

NERVOUS = """
.rule remind(I, Q) semantics=nervous when low(I), quantity(I, Q) do call remind(I, Q).
"""
"""Beside the strict rule of the program a nervous one: it fires for every change to an item that is low."""


def main() -> None:
    with upshot.connect() as db:
        db.define(HERE / "inventory.dl")
        load(db)
        print("thresholds", db.rows("threshold").sorted())
        db.define(NERVOUS)
        db.action("remind", lambda rows: print("   still low:", rows))
        sell(db, "down to the threshold", ("item1", 140))
        sell(db, "below it", ("item1", 139))
        sell(db, "one more", ("item1", 138))
        sell(db, "a mistake, corrected at once", ("item2", 10), ("item2", 1000))
        sell(db, "below the other threshold", ("item2", 289))
        sell(db, "a delivery", ("item1", 5000))
        print("open orders", db.rows("order").sorted())


def load(db: upshot.Database) -> None:
    with db.transaction() as tx:
        for file in sorted((HERE / "facts").glob("*.facts")):
            fields = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()]
            tx.insert(file.stem, [tuple(int(f) if f.isdigit() else f for f in row) for row in fields])


def sell(db: upshot.Database, words: str, *quantities: tuple[str, int]) -> None:
    """One transaction; what it set off is printed, calls at the moment they are made."""
    print(f"{words}: quantity {', then '.join(map(str, quantities))}")
    with db.transaction() as tx:
        for item, quantity in quantities:
            tx.upsert("quantity", [(item, quantity)])
    for firing in tx.firings:
        if firing.coupling != "after":
            print(f"   {firing.rule}:", firing.rows.sorted())


if __name__ == "__main__":
    main()
