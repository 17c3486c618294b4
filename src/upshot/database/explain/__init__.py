"""Explanations: strategies, costs, rules and the dependency network.

A database in; text, JSON and pictures out. Read `explain`, `explained_view`, `network`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from upshot.core.lazy_exports import lazy_modules

if TYPE_CHECKING:
    from upshot.database.explain import dependencies, explain
else:
    __getattr__ = lazy_modules(__name__)

__all__ = ["dependencies", "explain"]
