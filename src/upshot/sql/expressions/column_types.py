"""Translate types of SQL to types of columns."""

from __future__ import annotations

from sqlglot import exp

from upshot.core.types import (
    BOOLEAN,
    DATE,
    DECIMAL_SIZES,
    FLOAT,
    NUMBER,
    SYMBOL,
    TIMESTAMP,
    UNSIGNED,
    Kind,
    Type,
    is_decimal,
)
from upshot.sql.trouble import Statement

_D = exp.DType

_EXACT = {
    **dict.fromkeys((_D.TINYINT, _D.SMALLINT, _D.INT, _D.BIGINT), NUMBER),
    _D.UBIGINT: UNSIGNED,
    _D.DOUBLE: FLOAT,
    **dict.fromkeys((_D.TEXT, _D.VARCHAR, _D.NVARCHAR, _D.CHAR, _D.NCHAR), SYMBOL),
    _D.BOOLEAN: BOOLEAN,
    _D.DATE: DATE,
    **dict.fromkeys((_D.TIMESTAMP, _D.TIMESTAMPTZ, _D.TIMESTAMPLTZ), TIMESTAMP),
}

_CURES = {
    _D.FLOAT: ("a 32-bit float", "use DOUBLE PRECISION"),
    _D.TIMESTAMPNTZ: ("a time without a zone", "use TIMESTAMP, which is in UTC"),
    _D.SERIAL: ("an auto-increment column", "use BIGINT, and insert the numbers"),
    _D.BIGSERIAL: ("an auto-increment column", "use BIGINT, and insert the numbers"),
}
_SIZES = 2
_KNOWN = "BIGINT, DOUBLE PRECISION, TEXT, VARCHAR(n), BOOLEAN, DATE, TIMESTAMP and DECIMAL(p, s)"


def column_type(statement: Statement, written: exp.DataType, place: exp.Expression) -> Type:
    """The type without NULL; a type without an exact counterpart is refused."""
    kind = written.this
    if kind in (_D.DECIMAL, _D.BIGDECIMAL):
        return _decimal(statement, written, place)
    found = _EXACT.get(kind)
    if found is None or written.args.get("nested"):
        what, cure = _CURES.get(kind, (f"type {written.sql(statement.dialect)}", f"there are {_KNOWN}"))
        statement.refuse("sql-type", f"{what}: unknown type", place, help=cure)
    return found


def is_any_decimal(statement: Statement, written: exp.DataType) -> bool:
    """Test whether the type is PostgreSQL's NUMERIC without sizes, which keeps the digits of each value."""
    return written.this is _D.DECIMAL and not written.expressions and statement.dialect != "spark"


def longest(written: exp.DataType) -> int | None:
    """The n of VARCHAR(n) and CHAR(n)."""
    sizes = _sizes(written) or ([1] if is_padded(written) else [])
    known = written.this in (_D.VARCHAR, _D.NVARCHAR) or is_padded(written)
    return sizes[0] if known and sizes and sizes[0] > 0 else None


def is_padded(written: exp.DataType) -> bool:
    """Test whether the type is CHAR(n), in which trailing blanks are insignificant: they are not stored."""
    return written.this in (_D.CHAR, _D.NCHAR)


def _sizes(written: exp.DataType) -> list[int]:
    """The numeric parameters of a type; -1 for any other parameter."""
    sizes = [each.this.name for each in written.expressions if isinstance(each, exp.DataTypeParam)]
    return [int(size) if size.isdigit() else -1 for size in sizes]


def _decimal(statement: Statement, written: exp.DataType, place: exp.Expression) -> Type:
    sizes = _sizes(written) or ([10, 0] if statement.dialect == "spark" else [])
    if not sizes:
        statement.refuse("sql-type", "NUMERIC needs a precision and a scale", place, help="as in DECIMAL(18, 2)")
    precision, scale = sizes[0], sizes[1] if len(sizes) > 1 else 0
    if len(sizes) > _SIZES or not is_decimal(precision, scale):
        shown = ", ".join(each.sql(statement.dialect) for each in written.expressions)
        statement.refuse(
            "sql-type",
            f"invalid type DECIMAL({shown})",
            place,
            help=f"as in DECIMAL(18, 2): {DECIMAL_SIZES}",
        )
    return Type(Kind.DECIMAL, precision=precision, scale=scale)
