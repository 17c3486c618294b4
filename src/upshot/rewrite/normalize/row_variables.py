"""Variables for the columns of a relation, in clauses that speak of whole rows."""

from __future__ import annotations

from upshot.check.names.variables import fresh_name
from upshot.core.schema import Schema


def row_variables(schema: Schema) -> tuple[str, ...]:
    """One variable per column, after the column's name where that makes a good variable.

    >>> from upshot.core.schema import Column
    >>> from upshot.core.types import NUMBER
    >>> row_variables(Schema("edge", (Column("from", NUMBER), Column("to", NUMBER))))
    ('From', 'To')
    """
    chosen: list[str] = []
    for position, column in enumerate(schema.columns):
        good = column.name.isascii() and column.name.isidentifier() and column.name[0].isalpha()
        wish = column.name[0].upper() + column.name[1:] if good else f"X{position}"
        chosen.append(fresh_name(wish, chosen))
    return tuple(chosen)
