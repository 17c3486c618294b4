"""Components of views, and the procedures of the strategies that maintain them.

In: rule plans and changed rows. Out: exact changes. Read `assemble` (plans to kernel code), `runner`, `phases`,
`component` (one component), `visits` and `together` (all components of a change), then the procedures: `aggregates`,
`backward_forward`, `production`, `walks`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from upshot.core.lazy_exports import lazy_modules

if TYPE_CHECKING:
    from upshot.engine.local.components import aggregates, backward_forward, production, walks
else:
    __getattr__ = lazy_modules(__name__)

__all__ = ["aggregates", "backward_forward", "production", "walks"]
