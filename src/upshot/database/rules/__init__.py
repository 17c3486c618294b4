"""The actions of active rules: functions, and tasks that run after a commit.

Firings of `active` and registered functions in; calls, staged changes and tasks in the outbox out. Read `actions`
(functions and their calls), `action_files`, `transaction_rules` (inside a transaction), `outbox` (after the commit),
`firing_causes` (why a rule fired).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from upshot.core.lazy_exports import lazy_modules

if TYPE_CHECKING:
    from upshot.database.rules import outbox, transaction_rules
else:
    __getattr__ = lazy_modules(__name__)

__all__ = ["outbox", "transaction_rules"]
