"""All demos; the first one is the default."""

from __future__ import annotations

from functools import partial

from upshot.cli.demo.dependencies import SUMMARY as DEPENDENCIES
from upshot.cli.demo.dependencies import dependencies
from upshot.cli.demo.inventory import SUMMARY as INVENTORY
from upshot.cli.demo.inventory import inventory
from upshot.cli.demo.permissions import SUMMARY as PERMISSIONS
from upshot.cli.demo.permissions import permissions
from upshot.cli.demo.story import Announced
from upshot.cli.demo.trains import SUMMARY as TRAINS
from upshot.cli.demo.trains import trains

STORIES = (
    Announced("permissions", PERMISSIONS, permissions, partial(permissions, people=400, documents=5)),
    Announced("dependencies", DEPENDENCIES, dependencies, partial(dependencies, size=2000)),
    Announced("trains", TRAINS, trains, trains),
    Announced("inventory", INVENTORY, inventory, inventory),
)
