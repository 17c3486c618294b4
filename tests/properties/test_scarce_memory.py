"""Exactness when memory runs out: a transaction that cannot get it fails by name and is undone without asking for more,
and the next one reports exactly what changes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import upshot
from tests.properties.cases import Base, Case, after
from tests.properties.exactness import difference, expect, oracle, subject
from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, seed_of
from upshot.core.errors import DataError
from upshot.engine.local.kernel.memory import Buffer
from upshot.engine.local.storage import index, storage

ROWS = Features(rows=40, symbols=0.1, arithmetic=0.1)


@contextmanager
def scarce(allowed: int) -> Iterator[None]:
    """Inside, memory grows `allowed` times, and then not at all."""
    left, grow = allowed, Buffer._grow

    def limited(self: Buffer, size: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(12, "Cannot allocate memory")
        grow(self, size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Buffer, "_grow", limited)
        yield


def check_scarcity(case: Case, strategy: str) -> int:
    """Try each transaction with little memory first; the answer is how many attempts failed."""
    rng = random.Random(case.seed)
    it, failures = subject(case, strategy), 0
    it.replace(case.base)
    state: Base = case.base
    for transaction in case.transactions:
        views, changed = oracle(case, state), after(state, transaction)
        wanted = oracle(case, changed)
        if views is None or wanted is None:
            break
        try:
            with scarce(rng.randint(0, 6)):
                delta = it.apply(transaction)
        except upshot.EngineError as error:
            expect("the error", error.code, "out-of-memory")
            failures += 1
            expect("the views after memory ran out", it.state(), views)
            delta = it.apply(transaction)
        except DataError:
            break
        expect("the changes", delta, difference(views, wanted))
        expect("the views", it.state(), wanted)
        state = changed
    it.db.verify()
    it.db.close()
    return failures


@pytest.mark.parametrize("strategy", ["maintenance", "counting", "bf", "recompute", "production"])
def test_a_transaction_that_runs_out_of_memory_is_undone_and_the_next_is_exact(
    strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "_FIRST", 4)
    monkeypatch.setattr(index, "_FIRST", 4)
    failures, count = 0, case_count(10, least=20)
    for number in range(count):
        case = random_case(seed_of("scarce memory", number), ROWS)
        try:
            if oracle(case, case.base) is not None:
                failures += check_scarcity(case, strategy)
        except Exception as error:
            raise AssertionError(f"seed {case.seed}, strategy {strategy}\n{case.text()}") from error
    assert failures >= min(5, count // 4)
