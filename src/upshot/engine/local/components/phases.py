"""Assembled rule plans, cached between changes until the sizes that their join orders depend on have drifted."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from upshot.core.schema import Schema
from upshot.engine.local.components.assemble import Assembler, Phase
from upshot.engine.local.kernel.layout import T_LIVE, TABLE_WORDS
from upshot.engine.local.storage.codec import Codec
from upshot.engine.local.storage.storage import Storage, Table
from upshot.plan.rule_plan import RulePlan

_DRIFT = 8
"""A phase is planned again when a relation that it reads has grown or shrunk by this factor."""

Sizes = list[tuple[int, float, int]]
"""The places of the words with the sizes of relations, each with the smallest and largest size for which a plan is
valid."""

_SAMPLE = 1024
"""The size of the sample for the number of distinct keys, if no index counts them."""

_FEWEST_SAMPLED = 64
"""Tables with fewer rows are not sampled: any order is fast."""


class LocalStatistics:
    """Sizes from the tables, key counts from existing indexes, else from a sample of the rows."""

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self._tables = tables

    def size(self, relation: str) -> int:
        return self._tables[relation].size

    def keys(self, relation: str, columns: tuple[int, ...]) -> int | None:
        table = self._tables[relation]
        exact = table.keys(columns)
        if exact is not None:
            return exact
        if table.size < _FEWEST_SAMPLED:
            return None
        known = table.key_counts.get(columns)
        if known is None or not known[0] / 2 <= table.size <= 2 * known[0]:
            known = table.key_counts[columns] = table.size, _distinct_keys(table, columns)
        return known[1]


def _distinct_keys(table: Table, columns: tuple[int, ...]) -> int:
    """Estimate the number of distinct values in columns from a sample: all are distinct if no value repeats in it; else
    each value seen once stands for several. [Charikar et al. 2000, the guaranteed-error estimator]"""
    sample = _sample(table.all_rows())[:, list(columns)]
    _, times = (
        np.unique(sample, axis=0, return_counts=True) if len(columns) > 1 else np.unique(sample, return_counts=True)
    )
    once = int(np.count_nonzero(times == 1))
    if once == len(sample):
        return table.size
    return min(table.size, round((len(times) - once) + once * math.sqrt(table.size / len(sample))))


def _sample(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows at random places without repetition, the same for the same table. Every n-th row would be biased: loads
    write equal values together, and each would be seen once."""
    if len(rows) <= _SAMPLE:
        return rows
    places = (_fractions() * np.uint64(len(rows))) >> np.uint64(32)
    is_new = np.append(True, places[1:] != places[:-1])
    sample: NDArray[np.int64] = rows[places[is_new]]
    return sample


@functools.cache
def _fractions() -> NDArray[np.uint64]:
    """Random 32-bit fractions in ascending order. [Steele et al. 2014, SplitMix64]"""
    words = np.arange(1, _SAMPLE + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
    return np.sort((words ^ (words >> np.uint64(31))) >> np.uint64(32))


class Phases:
    """The phases of one component by name."""

    def __init__(self, storage: Storage, codec: Codec) -> None:
        self._storage, self._codec = storage, codec
        self._known: dict[str, tuple[Phase, Sizes]] = {}
        """Each phase with the sizes for which it is valid."""

    def phase(
        self, name: str, plans: Callable[[], Iterable[RulePlan]], tables: Mapping[str, Table],
        schemas: Mapping[str, Schema], reads: Iterable[str],
    ) -> Phase:  # fmt: skip
        """The phase with that name; it is made from `plans` if there is none, or if the sizes of the relations in
        `reads` have drifted."""
        known = self._known.get(name)
        if known is not None and are_near(known[1], self._storage):
            return known[0]
        widest = max((schema.arity for schema in schemas.values()), default=0) + 1
        phase = Assembler(self._storage, tables, schemas, self._codec, widest).assemble(plans())
        self._known[name] = phase, sizes_of(reads, tables)
        if known is not None:
            known[0].release(self._storage)
        return phase

    def texts(self) -> Iterator[int]:
        """The codes of text constants in the phases."""
        for phase, _ in self._known.values():
            yield from phase.texts

    def release(self) -> None:
        for phase, _ in self._known.values():
            phase.release(self._storage)
        self._known.clear()


def drift_limit(size: int) -> int:
    """The largest size for which a plan for this size is valid; small sizes count as equal."""
    return (size + 16) * _DRIFT - 16


def sizes_of(reads: Iterable[str], tables: Mapping[str, Table]) -> Sizes:
    """The sizes for which a plan for the current sizes is valid."""
    return [(tables[each].number * TABLE_WORDS + T_LIVE, *_around(tables[each].size)) for each in reads]


def are_near(sizes: Sizes, storage: Storage) -> bool:
    """Test whether all relations have sizes for which the plans are valid."""
    words = storage.words
    for place, least, most in sizes:  # noqa: SIM110 - called for every view that a commit reaches
        if not least <= words[place] <= most:
            return False
    return True


def _around(size: int) -> tuple[float, int]:
    """The smallest and the largest size for which a plan for this size is valid."""
    return (size + 16) / _DRIFT - 16, drift_limit(size)
