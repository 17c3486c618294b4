"""Clients monitor a view with parameters: each hears of the module that it asks about, and of nothing else.

    python examples/monitoring/run.py

The program is `modules.dl`: who is based on whom, and who mixes operating systems.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import upshot

PROGRAM = Path(__file__).parent.parent / "modules.dl"
FACTS = {
    "import": [("A", "directory")],
    "defined_in": [("directory", "C"), ("time", "E"), ("diff", "A")],
    "depend_on": [("directory", "unix"), ("time", "vms")],
}


def main() -> None:
    with upshot.connect() as db:
        db.define(PROGRAM)
        with db.transaction() as tx:
            for name, rows in FACTS.items():
                tx.insert(name, rows)
        for module in ("A", "D"):
            db.watch("mod_dep($m, Y)", hear(f"{module} is based on"), m=module)
            db.watch("ill_os($m, Y, Z)", hear(f"{module} mixes systems of"), m=module)
        change(db, "A", "time")
        change(db, "D", "diff")


def hear(words: str) -> Callable[[upshot.Event], None]:
    """Prints what comes to the answers and what goes from them."""

    def callback(event: upshot.Event) -> None:
        if event.snapshot:
            print(f"{words}: {event.inserted.sorted()}")
            return
        for sign, rows in (("+", event.inserted.sorted()), ("-", event.deleted.sorted())):
            if rows:
                print(f"   {words}: {sign}{rows}")

    return callback


def change(db: upshot.Database, module: str, procedure: str) -> None:
    print(f"{module} imports {procedure}")
    with db.transaction() as tx:
        tx.insert("import", [(module, procedure)])


if __name__ == "__main__":
    main()
