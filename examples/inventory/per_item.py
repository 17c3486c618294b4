"""The rule watches single items: it is activated for each of them, and deactivated again.

    python examples/inventory/per_item.py

The program is `inventory.dl`, as in `run.py`.
"""

from __future__ import annotations

from run import HERE, load, sell

import upshot


def main() -> None:
    with upshot.connect() as db:
        db.define(HERE / "inventory.dl")
        load(db)
        db.activate("reorder", I="item1")
        sell(db, "only item1 is watched", ("item1", 139), ("item2", 289))
        db.activate("reorder", I="item2")
        sell(db, "item2 was low before it was watched", ("item2", 288))
        sell(db, "both recover", ("item1", 5000), ("item2", 7500))
        sell(db, "both are low again", ("item1", 100), ("item2", 100))
        db.deactivate("reorder", I="item1")
        sell(db, "both recover", ("item1", 5000), ("item2", 7500))
        sell(db, "item1 is not watched any more", ("item1", 100), ("item2", 100))


if __name__ == "__main__":
    main()
