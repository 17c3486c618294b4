"""Workers: threads that run one plan in parallel, each with its own registers and state words."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

from upshot.engine.local.components.assemble import Phase
from upshot.engine.local.kernel import layout as op
from upshot.engine.local.kernel.interrupts import uninterrupted
from upshot.engine.local.kernel.machine import MACHINE
from upshot.engine.local.kernel.memory import Buffer, load8, store8
from upshot.engine.local.kernel.threads import side_by_side
from upshot.engine.local.storage.storage import Storage, Table
from upshot.engine.time_limit import check_time

_SLICE = 1 << 26
"""Steps after which workers stop, so that interrupts are handled."""

_COUNTED = (op.S_PROBED, op.S_MATCHED, op.S_DERIVED, op.S_CHANGED, op.S_STEPS)


class _Worker:
    """A worker with a part of the driving rows; `run` continues where it stopped."""

    def __init__(self, phase: Phase, start: int, first: int, end: int, emit: int, head: int) -> None:
        self.state = Buffer(8 * op.S_COMPONENT)
        self._registers, self._cursors = _copy(phase.registers), _copy(phase.cursors)
        self._block = Buffer(8 * op.BLOCK * (1 + phase.widest))
        for word, value in (
            (op.S_PC, start), (op.S_POSITION, first), (op.S_END, end), (op.S_EMIT, emit), (op.S_HEAD, head),
            (op.S_BLOCK, self._block.address), (op.S_BUDGET, _SLICE), (op.S_SHARED, 1),
        ):  # fmt: skip
            self.set(word, value)

    def set(self, word: int, value: int) -> None:
        store8(self.state.address, word, value)

    def get(self, word: int) -> int:
        return load8(self.state.address, word)

    def run(self, phase: Phase, storage: Storage) -> int:
        result: int = MACHINE.execute(
            phase.code.address, self.get(op.S_PC), storage.tables, storage.indexes, self._registers.address,
            self._cursors.address, self.state.address,
        )  # fmt: skip
        return result

    def release(self) -> None:
        for buffer in (self.state, self._registers, self._cursors, self._block):
            buffer.release()


class Crew:
    """Workers that share one plan; after an error, `place` is its place in the code, `detail` the kernel's detail."""

    def __init__(self, phase: Phase, storage: Storage, state: int, size: int) -> None:
        self._phase, self._storage, self._state = phase, storage, state
        self.place = self.detail = 0
        start, emit, head = load8(state, op.S_PC), load8(state, op.S_EMIT), load8(state, op.S_HEAD)
        parts = _parts(load8(state, op.S_POSITION), load8(state, op.S_END), size)
        self._workers = [_Worker(phase, start, first, end, emit, head) for first, end in parts]

    def run(self, table: Table) -> int:
        """Run until every worker is done; return DONE or the first error."""
        waiting, error = self._workers, op.DONE
        while waiting and error == op.DONE:
            # Interrupts and time limits take effect here, between two slices, while no worker runs.
            check_time()
            with uninterrupted():
                results = self._run_once(waiting, table)
            errors = [w for w in waiting if results[w] not in (op.DONE, op.GROW, op.SPENT)]
            if errors:
                error = results[errors[0]]
                self.place, self.detail = errors[0].get(op.S_PC), errors[0].get(op.S_DETAIL)
            waiting = [w for w in waiting if results[w] in (op.GROW, op.SPENT)]
        for word in _COUNTED:
            store8(self._state, word, load8(self._state, word) + sum(w.get(word) for w in self._workers))
        return error

    def _run_once(self, workers: list[_Worker], table: Table) -> dict[_Worker, int]:
        """Run all of them in parallel, until each is done or has used up its share of the table's room."""
        table.make_room(len(workers) * 4 * op.CHUNK)
        quota = table.word(op.T_ROOM) // len(workers)
        before = sum(w.get(op.S_CHANGED) for w in workers)
        for worker in workers:
            worker.set(op.S_BUDGET, _SLICE)
            worker.set(op.S_QUOTA, quota)
            worker.set(op.S_NEXT, 0)
            worker.set(op.S_LIMIT, 0)
        results = side_by_side(lambda worker: worker.run(self._phase, self._storage), workers)
        added = sum(w.get(op.S_CHANGED) for w in workers) - before
        table.add_shared(added, [(w.get(op.S_NEXT), w.get(op.S_LIMIT)) for w in workers])
        return dict(zip(workers, results, strict=True))

    def release(self) -> None:
        for worker in self._workers:
            worker.release()


def _parts(first: int, end: int, count: int) -> Iterator[tuple[int, int]]:
    for i in range(count):
        yield first + (end - first) * i // count, first + (end - first) * (i + 1) // count


def _copy(buffer: Buffer) -> Buffer:
    copy = Buffer(buffer.size)
    ctypes.memmove(copy.address, buffer.address, buffer.size)
    return copy
