"""Actions of active rules: functions, and what runs after a commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from upshot.core.lazy_exports import lazy_modules

if TYPE_CHECKING:
    from upshot.database.rules import outbox, transaction_rules
else:
    __getattr__ = lazy_modules(__name__)

__all__ = ["outbox", "transaction_rules"]
