"""Random programs over records give what the same programs give over plain columns, change by change."""

from __future__ import annotations

import pytest

from tests.properties.cases import Base, Case, after
from tests.properties.engines import connect
from tests.properties.exactness import Row, Views, checked, difference, keyed, oracle
from tests.properties.packed_columns import CannotPack, packed, packing
from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, seed_of
from tests.properties.strategies import view_options
from upshot.core.schema import Schema
from upshot.engine.naive import evaluate

FEATURES = Features(nullable=0, exotic=0, wildcards=0.1, views=3, rows=6, transactions=3)
STRATEGIES = ("maintenance", "counting", "bf", "recompute", "rod")


def unpacked(rows: object, schema: Schema, seed: int) -> set[Row]:
    """The rows of a relation of records as those of plain columns."""
    if not schema.arity:
        return keyed(rows)  # type: ignore[arg-type]
    way = packing(seed, schema)
    return keyed(way.row(value) for (value,) in rows)  # type: ignore[attr-defined]


def packed_row(row: Row, schema: Schema, seed: int) -> Row:
    return (packing(seed, schema).value(schema.name, row),) if row else row


def run(case: Case, strategy: str) -> bool:
    """Follow the case on both sides; False where it cannot be packed, or evaluation must fail."""
    flat = checked(case.text())
    try:
        text = packed(case.text(), case.seed, dict(flat.schemas))
    except CannotPack:
        return False
    expected = oracle(case, case.base)
    if expected is None:
        return False
    options = view_options(checked(text), strategy)
    with connect() as db:
        db.define("\n".join([text, *options]))
        with db.transaction() as tx:
            for name, rows in case.base.items():
                tx.insert(name, [packed_row(row, flat.schemas[name], case.seed) for row in rows])
        state: Base = case.base
        for transaction in case.transactions:
            state = after(state, transaction)
            new = oracle(case, state)
            if new is None:
                return True
            with db.transaction() as tx:
                for change in transaction:
                    row = packed_row(change.row, flat.schemas[change.relation], case.seed)
                    (tx.insert if change.sign == "+" else tx.delete)(change.relation, [row])
            _same_changes(expected, new, tx, flat.schemas, case)
            expected = new
        for view, rows in expected.items():
            assert unpacked(db.rows(view), flat.schemas[view], case.seed) == rows
        db.verify()
    return True


def _same_changes(old: Views, new: Views, tx: object, schemas: object, case: Case) -> None:
    for view, (inserted, deleted) in difference(old, new).items():
        changes = tx.changes[view]  # type: ignore[attr-defined]
        schema = schemas[view]  # type: ignore[index]
        assert unpacked(changes.inserted, schema, case.seed) == inserted, (case.text(), view)
        assert unpacked(changes.deleted, schema, case.seed) == deleted, (case.text(), view)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_records_change_as_plain_columns_do(strategy: str) -> None:
    count = case_count(40, least=4)
    ran = sum(run(random_case(seed_of(f"records/{strategy}", number), FEATURES), strategy) for number in range(count))
    assert ran > 0


def test_the_oracle_reads_records_as_plain_columns() -> None:
    """The oracle's own treatment of records against itself without them."""
    ran = 0
    count = case_count(20, least=10)
    for number in range(count):
        case = random_case(seed_of("records/oracle", number), FEATURES)
        flat = checked(case.text())
        try:
            text = packed(case.text(), case.seed, dict(flat.schemas))
        except CannotPack:
            continue
        expected = oracle(case, case.base)
        if expected is None:
            continue
        ran += 1
        base = {
            name: {_as_text(row, flat.schemas[name], case.seed) for row in rows} for name, rows in case.base.items()
        }
        found = evaluate(checked(text), base)
        for view, rows in expected.items():
            assert unpacked(found[view], flat.schemas[view], case.seed) == rows, case.text()
    assert ran > min(3, count // 3)


def _as_text(row: Row, schema: Schema, seed: int) -> Row:
    if not row:
        return row

    def tree(value: object) -> object:
        if isinstance(value, dict):
            ((tag, fields),) = value.items()
            return (tag, *map(tree, fields))
        return ("", *map(tree, value)) if isinstance(value, tuple) else value

    from upshot.engine.naive_values import unread  # noqa: PLC0415

    return (unread(tree(packing(seed, schema).value(schema.name, row))),)
