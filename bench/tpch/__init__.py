"""TPC-H: its tables, its 22 queries with the validation parameters, and rows and refreshes drawn by a generator of our
own, the same for the same scale and seed."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parent

SCHEMA = (_HERE / "schema.sql").read_text(encoding="utf-8")


def queries() -> dict[str, str]:
    """The queries by name, as the specification writes them."""
    found = {}
    for block in (_HERE / "queries.sql").read_text(encoding="utf-8").split("-- q")[1:]:
        number, _, text = block.partition("\n")
        found[f"q{number}"] = text.strip().removesuffix(";")
    return found
