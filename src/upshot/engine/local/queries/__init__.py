"""Queries over stored relations and unstored views.

In: a query and its parameters. Out: rows. Read `answers`, `queries`, `demand_run`, `on_demand`, `prepared_queries`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from upshot.core.lazy_exports import lazy_modules

if TYPE_CHECKING:
    from upshot.engine.local.queries import answers, on_demand, prepared_queries
else:
    __getattr__ = lazy_modules(__name__)

__all__ = ["answers", "on_demand", "prepared_queries"]
