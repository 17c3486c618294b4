"""The stories there are."""

from __future__ import annotations

from upshot.cli.demo import dependencies, inventory, trains
from upshot.cli.demo.story import Announced

STORIES = (
    Announced("dependencies", dependencies.SUMMARY, dependencies.dependencies),
    Announced("trains", trains.SUMMARY, trains.trains),
    Announced("inventory", inventory.SUMMARY, inventory.inventory),
)
