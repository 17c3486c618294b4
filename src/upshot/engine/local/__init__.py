"""The embedded engine: in process, compiled kernels, no Java.

Read `storage` (tables, indexes, codes), `kernel` (the machine), `components` (strategies), `queries`, then `engine`.

Rows are codes. A relation is a row-major set of 64-bit codes: integers as themselves, floats in an order-preserving
form, text through a dictionary. Sweeps reclaim dictionary entries that no relation, rule or answer uses; a sweep costs
as much as the additions since the last one. A hash set finds a row: a slot is a 32-bit tag and a row number, with
linear probing and any table size. Indexes are chained hash indexes on the columns that plans probe, built when first
needed, shared by all views, updated in place.

States are bits. Each row has state bits: OLD, NEW, DEL. The state before the transaction, the state after it and the
over-deleted part are subsets of the same rows; a probe names the bits that it requires. No state is copied, and
accepting or rolling back a transaction visits only the changed rows. (docs/decisions/0002-state-bits.md)

One kernel. The deletion, rederivation and insertion rules of a component are assembled into small register programs:
bind a variable, probe an index, compare, compute, emit. One kernel executes them, compiled by Numba with an explicit
signature and cached on disk, never once per program. The kernel runs the rounds of a phase to the fixpoint; Python runs
components and phases, level by level (`components/visits.py`). Views of a level that are not recursive share one run
(`components/together.py`). (docs/decisions/0003-one-kernel.md)

Two forms. The same source also runs as plain Python. Tiny inputs stay there and import no Numba. The plain form has a
budget of steps; when it is spent, the compiled form continues from the same state words, in the middle of a loop. All
state is in raw memory that both forms read.

Blocks. Derived heads wait in a block of 64 while the memory of their slots and rows is prefetched: a load of tens of
millions of rows is bound by memory, not by the interpreter. A row to be rederived is its own driver and is returned by
its number, without a lookup.

Workers. While a view is loaded into an empty table, threads share a large plan, each with a part of the driving rows. A
slot is claimed by one atomic step after its row has been written, so that no thread sees half a row; slots are also
rehashed in parallel. Small changes stay on the calling thread. (docs/decisions/0004-shared-loads.md)

Walks. A large closure is loaded by one walk for each combination of its kept columns: marks for the reached values take
a few kilobytes, and the table's slots are filled at the end. (docs/decisions/0007-closures-by-walks.md)

Cells. A closure with rows for most combinations of its values stores one byte of state bits per combination instead of
rows: each combination of the kept columns has a line, and each value of the moving column a place in it. The marks of a
walk are these bytes. Code that reads rows by number supports both forms; a dense table becomes an ordinary one when it
gets sparse. (docs/decisions/0009-closures-in-cells.md)

First changes. A load of a thousand rows or more builds the indexes that changes will probe, and leaves room in sets and
indexes, so that the first change costs no more than later ones; not if no change will follow (`loaded_once`).

Join orders depend on the sizes of tables, the key counts of indexes and samples (`components/phases.py`). A literal
without bound variables comes last: it is a cross product. When the views of a component have grown eightfold since it
was planned, the kernel stops between two rounds and continues with new plans.

Stops. When a table must grow, or a functor on text needs Python, the kernel saves its state and returns; Python does
the work, for a whole buffer of rows at once, and the kernel continues.

Counters. Every commit has work counters (probed, matched, derived, filtered, deleted, rederived, inserted, rounds), in
total and per view. Tests assert on them, `explain` prints them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from upshot.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from upshot.engine.local.engine import LocalEngine
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "LocalEngine": "upshot.engine.local.engine",
        },
    )

__all__ = ["LocalEngine"]
