"""The cause of an inserted or deleted row, or of a firing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from upshot.core.rows import Row


@dataclass(frozen=True, slots=True)
class Cause:
    """The reason why a row was inserted or deleted, or a rule fired: the base rows that the transaction `inserted` and
    `deleted` for it, and the `literals` of the last rule that changed. Of a firing, `differentials` are these literals
    as they are written, after the sign of their change: `+low(I)`, `-blocked(I)`, `±N = count : { … }`."""

    inserted: tuple[tuple[str, Row], ...]
    deleted: tuple[tuple[str, Row], ...]
    literals: tuple[str, ...]
    differentials: tuple[str, ...] = ()
