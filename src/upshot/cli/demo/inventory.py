"""The inventory demo, a warehouse: a threshold of stock, consumption and delivery times, crossed in both directions."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from upshot.cli.demo.story import Facts, Story, StoryTransaction, program_text

SUMMARY = "items below a computed threshold, and active rules that order them (joins, an aggregate, active rules)"

_GOODS = (
    "bolt,bracket,cable,clamp,coupling,fan,filter,fuse,gasket,hinge,"
    "hose,lamp,motor,nut,pump,relay,seal,sensor,spring,valve"
)
_MAKES = "brass,ceramic,copper,heavy,light,long,nylon,short,steel,wide"
_SIZES = "4mm,6mm,8mm,10mm,12mm,16mm,20mm,25mm,32mm,40mm"
_SUPPLIERS = ("Brandt & Sons", "Hollis", "Kato Works", "Lindqvist", "Moreau", "Ostrava Metals")


def inventory() -> Story:
    facts = _facts(Random(3))
    return Story(
        name="inventory",
        summary=SUMMARY,
        opening=(
            f"{len(facts['quantity']):,} items, {len(_SUPPLIERS)} suppliers. An item is low when its stock would not "
            "last until the next delivery. A view computes how much to order, and an active rule orders it. Stock is "
            "updated by key."
        ),
        program=program_text("inventory"),
        facts=facts,
        steps=tuple(_steps()),
        shows=("low", "to_order", "threshold", "low_items"),
    )


def _facts(random: Random) -> Facts:
    items = [
        f"{make} {good} {size}"
        for make in _MAKES.split(",")
        for good in _GOODS.split(",")
        for size in _SIZES.split(",")
    ]
    supplier = {item: random.choice(_SUPPLIERS) for item in items}
    facts: dict[str, list[tuple[object, ...]]] = {
        "quantity": [(item, random.randrange(420, 5000)) for item in items],
        "min_stock": [(item, random.choice((50, 100, 150))) for item in items],
        "max_stock": [(item, random.choice((5000, 7500))) for item in items],
        "consume_freq": [(item, random.randrange(5, 30)) for item in items],
        "supplies": [(supplier[item], item) for item in items],
        "delivery_time": [(item, supplier[item], random.randrange(1, 9)) for item in items],
    }
    for item, settings in (("item1", (5000, 100, 20, 2)), ("item2", (7500, 200, 30, 3))):
        most, least, daily, days = settings
        facts["quantity"].append((item, 1000))
        facts["max_stock"].append((item, most))
        facts["min_stock"].append((item, least))
        facts["consume_freq"].append((item, daily))
        facts["supplies"].append(("Hollis", item))
        facts["delivery_time"].append((item, "Hollis", days))
    return facts


def _steps() -> Iterator[StoryTransaction]:
    yield StoryTransaction(
        "A sale of item1",
        "Stock falls from 1000 to 141. The threshold is 20 a day × 2 days + 100 = 140, so no view changes yet.",
        upsert=[("quantity", ("item1", 141))],
    )
    yield StoryTransaction(
        "Two more are sold",
        "139 is below 140: item1 is low. The rule `reorder` orders it in the same transaction.",
        upsert=[("quantity", ("item1", 139))],
    )
    yield StoryTransaction(
        "One more",
        "item1 is still low: only the amount to order changes. The rule fired when item1 became low, so it does not "
        "fire again.",
        upsert=[("quantity", ("item1", 138))],
    )
    yield StoryTransaction(
        "A mistake, corrected at once",
        "item2 is set to 10 and back to 1000 in the same transaction. Only the net effect counts, and it is empty: "
        "no rule fires.",
        upsert=[("quantity", ("item2", 10)), ("quantity", ("item2", 1000))],
    )
    yield StoryTransaction(
        "A delivery",
        "item1 is full again. It is no longer low, and the rule `delivered` closes the order.",
        upsert=[("quantity", ("item1", 5000))],
    )
    yield StoryTransaction(
        "Hollis is late",
        "Deliveries of item2 now take 40 days instead of 3. The threshold rises from 290 to 1400, so item2 is low "
        "with the same stock.",
        upsert=[("delivery_time", ("item2", "Hollis", 40))],
    )
