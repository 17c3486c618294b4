"""The program of a database and its changes.

Text in; a compiled program, and the changes of views that follow from new rules out. Read `compile`, `definitions`,
`redefine`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from upshot.core.lazy_exports import lazy_modules

if TYPE_CHECKING:
    from upshot.database.program import compile, functors, redefine, switch, verify
else:
    __getattr__ = lazy_modules(__name__)

__all__ = ["compile", "functors", "redefine", "switch", "verify"]
