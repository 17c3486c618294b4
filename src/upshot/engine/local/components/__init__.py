"""Components of views and the strategies that maintain them.

Rule plans and changed rows in; exact changes out. Read `assemble`, `runner`, `phases`, `component`, `visits`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from upshot.core.lazy_exports import lazy_modules

if TYPE_CHECKING:
    from upshot.engine.local.components import aggregates, backward_forward, production, walks
else:
    __getattr__ = lazy_modules(__name__)

__all__ = ["aggregates", "backward_forward", "production", "walks"]
