"""Live queries: rule bodies and SELECTs with parameters that have subscribers.

Query text and values in; for each commit, events for the parameters that it affects out. Read `shapes`, `live_queries`,
`layer`, `follow`, `faults`, `kept`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from upshot.core.lazy_exports import lazy_modules

if TYPE_CHECKING:
    from upshot.database.live import event_filter, faults, follow, kept, layer, shapes
else:
    __getattr__ = lazy_modules(__name__)

__all__ = ["event_filter", "faults", "follow", "kept", "layer", "shapes"]
