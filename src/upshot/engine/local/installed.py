"""A program as the local engine holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from upshot.core.schema import Schema
from upshot.engine.local.component import Component
from upshot.engine.local.on_demand import OnDemandViews
from upshot.engine.local.screening import Screening
from upshot.engine.local.storage import Table
from upshot.plan.program_plan import ProgramPlan


@dataclass(slots=True)
class Installed:
    """A program with its storage; replaced whole, so that a failed definition is undone by putting the old one back."""

    plan: ProgramPlan | None = None
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    components: list[Component] = field(default_factory=list)
    readers: dict[str, list[int]] = field(default_factory=dict)
    """For each relation the components that read it, by their place in the order of evaluation."""
    on_demand: OnDemandViews | None = None
    screening: Screening | None = None
    afresh: frozenset[str] = frozenset()
    """Views on demand that the open definition made, or defined otherwise."""


def same_shape(one: Schema, other: Schema) -> bool:
    return one.types == other.types
