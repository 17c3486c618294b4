"""Upshot computes the exact effects of a change to your tables on every view derived from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from upshot.core.errors import (
    ConstraintError,
    DataError,
    EngineError,
    Error,
    LimitError,
    OverflowError_,
    ProgramError,
    QueryWarning,
    RuleError,
    UsageError,
    VerifyError,
    Veto,
)
from upshot.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from upshot.active.firing import Firing
    from upshot.core.rows import Rows
    from upshot.core.search_bounds import Bounds
    from upshot.database.changes import Changes, ChangeSet, Definition
    from upshot.database.connect import connect
    from upshot.database.database import Database
    from upshot.database.explain.explain import Explanation
    from upshot.database.queries.absence import Absence
    from upshot.database.queries.models import Models
    from upshot.database.queries.what_if import WhatIf
    from upshot.database.realization import Realization
    from upshot.database.realize import Realizations
    from upshot.database.transaction import Transaction
    from upshot.database.watch import Event, Subscription
    from upshot.engine.user_functions import Fold
    from upshot.pipeline.run import Pipeline, run_pipeline
    from upshot.reasons.changed import RowChange
    from upshot.reasons.derivation import Derivation
    from upshot.reasons.failure import Failure
    from upshot.revise.placeholders import Placeholder

__version__ = "0.1.0"

__all__ = [
    "Absence",
    "Bounds",
    "ChangeSet",
    "Changes",
    "ConstraintError",
    "DataError",
    "Database",
    "Definition",
    "Derivation",
    "EngineError",
    "Error",
    "Event",
    "Explanation",
    "Failure",
    "Firing",
    "Fold",
    "LimitError",
    "Models",
    "OverflowError_",
    "Pipeline",
    "Placeholder",
    "ProgramError",
    "QueryWarning",
    "Realization",
    "Realizations",
    "RowChange",
    "Rows",
    "RuleError",
    "Subscription",
    "Transaction",
    "UsageError",
    "VerifyError",
    "Veto",
    "WhatIf",
    "__version__",
    "connect",
    "run_pipeline",
]

# Loaded on first use: `upshot --help` and `import upshot.syntax` need neither engine nor database.
_HOMES = {
    "Absence": "upshot.database.queries.absence",
    "Bounds": "upshot.core.search_bounds",
    "ChangeSet": "upshot.database.changes",
    "Changes": "upshot.database.changes",
    "Database": "upshot.database.database",
    "Definition": "upshot.database.changes",
    "Derivation": "upshot.reasons.derivation",
    "Event": "upshot.database.watch",
    "Explanation": "upshot.database.explain.explain",
    "Failure": "upshot.reasons.failure",
    "Firing": "upshot.active.firing",
    "Fold": "upshot.engine.user_functions",
    "Models": "upshot.database.queries.models",
    "Pipeline": "upshot.pipeline.run",
    "Placeholder": "upshot.revise.placeholders",
    "Realization": "upshot.database.realization",
    "Realizations": "upshot.database.realize",
    "RowChange": "upshot.reasons.changed",
    "Rows": "upshot.core.rows",
    "Subscription": "upshot.database.watch",
    "Transaction": "upshot.database.transaction",
    "WhatIf": "upshot.database.queries.what_if",
    "connect": "upshot.database.connect",
    "run_pipeline": "upshot.pipeline.run",
}


__getattr__, _ = lazy_exports(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
