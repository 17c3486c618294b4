"""The embedded engine: in process, compiled kernels, no Java.

Rows are codes. A relation is a row-major set of 64-bit codes: integers as themselves, floats in an order-preserving
form, text through a dictionary; entries that no relation, rule or answer holds any more are reclaimed in sweeps, each
paid for by as many additions before it. A hash set finds a row: one slot is a 32-bit tag and a row number, linear
probing, any table size. Indexes for the column sets that plans probe are chained hash indexes, built when first needed,
shared by all views, updated in place.

States are bits. Each row carries state bits: OLD, NEW, DEL. The state before the transaction, the state after it and
the over-deleted part are three readings of the same rows; a probe names the bits it wants. Nothing is copied to get
another state, accepting or undoing a transaction visits the changed rows only. (docs/decisions/0002-state-bits.md)

One kernel. The deletion, rederivation and insertion rules of a component are assembled into small register programs:
bind a variable, probe an index, compare, compute, emit. One kernel executes them, compiled by Numba with an explicit
signature and cached on disk, never once per program. It runs the whole fixpoint of a phase inside: the loop over rounds
is the kernel's, the loop over components and phases is written once, above it (`visits.py`, level by level). The views
of a level that do not depend on themselves, counted or maintained, share one run (`together.py`).
(docs/decisions/0003-one-kernel.md)

Two forms of it. The same source also runs as plain Python. Tiny inputs stay there and import no Numba; the plain form
has a budget of steps, and when it is used up it hands its state, mid-loop, to the compiled one. All state lives in raw
memory that both read.

Blocks. A derived head waits in a block of 64 while the slots and rows it will touch are fetched: a load of tens of
millions of rows is bound by memory, not by the interpreter. A row to be rederived is its own driver and comes back by
its number, without a look-up.

Workers. While a view is loaded into an empty table, a large plan is shared between threads, each on a part of the
driving rows. A slot is claimed in one step, after the row it leads to has been written, so nobody ever sees half a row;
growing a table's slots is shared the same way. Small changes stay on the calling thread.
(docs/decisions/0004-shared-loads.md)

Walks. A large closure is loaded one value of the columns that stay after the other: what a walk has seen is marked in a
few kilobytes, and the table's slots are filled at the end. (docs/decisions/0007-closures-by-walks.md)

Cells. A closure that has rows for most combinations of its values has no rows in memory: each value of the columns that
stay has a line, each value of the one that moves a place in it, where the state bits of the row stand. A walk's marks
are these bits. What reads a row by its number knows both forms; a dense table turns into an ordinary one when it gets
sparse.
(docs/decisions/0009-closures-in-cells.md)

First changes. A load of a thousand rows and more builds the indexes that changes will probe, and leaves room in sets
and indexes, so that the first change costs what those after it cost; not where nothing will change (`loaded_once`).

Join orders come from the sizes of tables, the key counts of indexes and samples (`phases.py`). A literal that shares no
variable with what is bound waits: it would be a cross product. When the views of a component have grown eightfold since
it was planned, the kernel stops between two rounds and goes on with new plans.

Stops. When a table must grow, or a functor on text needs Python, the kernel returns with its state saved; Python does
what is asked, for a whole buffer of rows at once, and the kernel goes on where it stopped.

Numbers. Work counters (probed, matched, derived, filtered, deleted, rederived, inserted, rounds) come with every
commit, in all and per view. Tests assert on them, `explain` prints them.
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
