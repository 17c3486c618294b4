"""Assembled rule plans, kept from one change to the next until the sizes they were ordered by have drifted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from upshot.core.schema import Schema
from upshot.engine.local.assemble import Assembler, Phase
from upshot.engine.local.codec import Codec
from upshot.engine.local.storage import Storage, Table
from upshot.plan.rule_plan import RulePlan

_DRIFT = 8
"""A phase is planned anew once a relation it reads is this many times larger or smaller than when it was planned."""


class TableStatistics:
    """Sizes from the tables, key counts from the indexes there are."""

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self._tables = tables

    def size(self, relation: str) -> int:
        return self._tables[relation].size

    def keys(self, relation: str, columns: tuple[int, ...]) -> int | None:
        index = self._tables[relation].indexes.get(columns)
        return index.keys if index is not None else None


class Phases:
    """The phases of one component by name."""

    def __init__(self, storage: Storage, codec: Codec) -> None:
        self._storage, self._codec = storage, codec
        self._known: dict[str, tuple[Phase, list[tuple[str, float, int]]]] = {}
        """With each phase, the sizes between which it need not be planned anew."""

    def phase(
        self, name: str, plans: Callable[[], Iterable[RulePlan]], tables: Mapping[str, Table],
        schemas: Mapping[str, Schema], reads: Iterable[str],
    ) -> Phase:  # fmt: skip
        """The phase of that name, made from `plans` if there is none or the sizes of what it `reads` have drifted."""
        known = self._known.get(name)
        if known is not None:
            phase, sizes = known
            for relation, least, most in sizes:
                if not least <= tables[relation].size <= most:
                    break
            else:
                return phase
        widest = max((schema.arity for schema in schemas.values()), default=0) + 1
        phase = Assembler(self._storage, tables, schemas, self._codec, widest).assemble(plans())
        self._known[name] = phase, [(relation, *_around(tables[relation].size)) for relation in reads]
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


def _around(size: int) -> tuple[float, int]:
    """The sizes that are not far from this one; small ones never are from each other."""
    return (size + 16) / _DRIFT - 16, (size + 16) * _DRIFT - 16
