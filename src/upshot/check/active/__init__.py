"""Active rules: events, conditions, activations, and the triggering graph.

Input: rule items. Output: checked rules, and warnings about rules that interfere with each other. Read
`active_rules`, `conditions`, `transitions`, `triggering`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from upshot.core.lazy_exports import lazy_modules

if TYPE_CHECKING:
    from upshot.check.active import active_rules, triggering
else:
    __getattr__ = lazy_modules(__name__)

__all__ = ["active_rules", "triggering"]
