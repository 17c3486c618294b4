"""Queries and explanations of the current state.

Rule bodies, SQL and rows in; answers, derivations and hypothetical changes out. Read `query`, `sql_answers`, `why`,
`what_if`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from upshot.core.lazy_exports import lazy_modules

if TYPE_CHECKING:
    from upshot.database.queries import models, query, sql_answers, what_if
else:
    __getattr__ = lazy_modules(__name__)

__all__ = ["models", "query", "sql_answers", "what_if"]
