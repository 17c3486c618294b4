"""The words of the kernel's descriptors and instructions, as plain integer constants."""

from __future__ import annotations

from upshot.core.types import Kind
from upshot.values.conditions import COMPARISONS
from upshot.values.functions import FUNCTIONS

# State bits of a row. A row that is not in use has none of them.
OLD, NEW, DEL, TOUCHED, PROVEN = 1, 2, 4, 8, 16
"""In the state before the transaction; in the state after it; over-deleted, or looked at for another proof; listed as
touched; looked at, and proven."""

# A table's descriptor: TABLE_WORDS 64-bit words.
(
    T_ROWS, T_FLAGS, T_SLOTS, T_NSLOTS, T_USED, T_LIVE, T_ROOM, T_ARITY,
    T_FREE, T_NFREE, T_COUNT, T_GAIN, T_LO, T_HI, T_INDEX, T_NINDEX,
    T_DEL, T_NDEL, T_CAPDEL, T_RED, T_NRED, T_CAPRED, T_INS, T_NINS, T_CAPINS,
    T_PLAIN, T_BEST, T_GROUP, T_VALUE, T_ORDER, T_DENSE,
) = range(31)  # fmt: skip
TABLE_WORDS = 32
"""T_PLAIN is 1 while a view is loaded into an empty table: every row in use is then in the new state, and
inserted. A list whose address is 0 is the list of all row numbers up to its length.

T_BEST says which row of a group is kept, 0 if all are; T_GROUP the index on the columns of the group, T_VALUE the
column that decides; T_ORDER, where codes do not have the order of their values, the address of two words: where the
ranks of the codes stand, and how many there are.

T_DENSE is the address of the words of the dense form, 0 where a table has rows and slots."""

# The dense form: a line of cells for each value of the columns but one, D_MOVING, and in each line a cell for each
# place of its span. Lines and places belong to blocks, one for each value of the columns that all edges share with the
# rows; a place is the number of a value of D_MOVING in its block. D_FULL is 1 once a row, which stands from D_KEY on,
# found no cell; from D_NEXT on cells are free; lines from D_TAIL on came after the layout. Numbers of blocks, lines and
# places are described by NUMBER_WORDS words each, D_WHERE is the address of two words for each column: which numbers
# have its codes, and at what place of theirs.
(
    D_FULL, D_MOVING, D_NEXT, D_TAIL, D_SHIFT, D_FIRST_LINES, D_STARTS, D_LOWS, D_BOUNDS, D_KEY, D_WHERE,
) = range(11)  # fmt: skip
N_CODES, N_COUNT, N_ROOM, N_SLOTS, N_NSLOTS, N_WIDTH, N_COLUMNS, N_OWNERS = range(8)
NUMBER_WORDS = 8
D_BLOCKS, D_LINES, D_PLACES = 11, 11 + NUMBER_WORDS, 11 + 2 * NUMBER_WORDS
DENSE_WORDS = D_PLACES + NUMBER_WORDS
"""D_STARTS: the first cell of each line; D_LOWS: the first place of its span. D_FIRST_LINES: for each 1 << D_SHIFT
cells the line of the first of them."""

# The bounds of a block: its places, used and free, and the lines it had at the layout, others among them.
B_LOW, B_USED, B_HIGH, B_LINE, B_END = range(5)
BLOCK_WORDS = 5

NO_CELL = 1 << 40
"""Stands for the cell of a row that has none."""

LEAST, GREATEST = 1, 2

# An index's descriptor. T_INDEX of its table names the first index, X_MORE the next one (-1: none).
X_SLOTS, X_NSLOTS, X_NKEYS, X_NEXT, X_PREV, X_NCOLS, X_MORE, X_COLS = range(8)
INDEX_WORDS = 72
MAX_INDEX_COLUMNS = INDEX_WORDS - X_COLS

# A plan's descriptor: where its code starts, what drives it, when it runs, what becomes of its heads; the counters as
# they were when the last round came to it.
P_CODE, P_TABLE, P_SOURCE, P_SEED, P_EXTERN, P_EMIT, P_HEAD, P_SHARED = range(8)
P_PROBED, P_MATCHED, P_DERIVED, P_CHANGED = range(8, 12)
PLAN_WORDS = 12

# What becomes of a derived head: it enters the new state, joins the overestimate, comes back, has a derivation
# more or less. RETURN and PROVE_ROW: the driving row itself comes back, or is proven.
INSERT, DELETE, REDERIVE, PROVE, GAIN, LOSE, RETURN, PROVE_ROW = range(8)

BLOCK = 64
"""Derived heads wait in a block of this many, so that the memory they will touch is on its way when they are
looked up."""

CHUNK = 512
"""Row numbers that a worker takes at a time while several insert into one table."""

# What a plan is driven by: the rows of a table, one of its lists, a single empty tuple, a buffer.
FROM_ROWS, FROM_DEL, FROM_RED, FROM_INS, FROM_UNIT, FROM_BUFFER = range(6)

# The kernel's own state between two calls; from S_COMPONENT on, the tables of the component.
(
    S_PLAN, S_NPLANS, S_ROUND, S_PC, S_RUNNING, S_BUDGET, S_DETAIL, S_MAXROUNDS, S_LIST, S_TRACE, S_RESULT,
    S_PROBED, S_DERIVED, S_CHANGED, S_MATCHED, S_NTABLES, S_POSITION, S_END, S_STEPS,
    S_BLOCK, S_PENDING, S_EMIT, S_HEAD, S_RECHECK,
    S_WORKERS, S_SHARED, S_NEXT, S_LIMIT, S_QUOTA, S_STUCK, S_WORTH, S_ROW, S_HELD, S_DRIFT,
) = range(34)  # fmt: skip
S_COMPONENT = 34

# What the kernel answers.
(
    DONE, GROW, SPENT, OVERFLOW, ZERO_DIVISION, NEGATIVE_EXPONENT, EXTERN, ROUND_ENDED, TOO_MANY_ROUNDS, RESERVED,
    SHARE, DRIFTED, TOO_LONG,
) = range(13)  # fmt: skip

# Instructions: word 0 the operation, 1 where to go back to on failure, 2 where to go on.
(
    I_DRIVE, I_PROBE, I_SCAN, I_MEMBER, I_ABSENT, I_COMPARE, I_ARITHMETIC, I_MOVE, I_NOT_NULL, I_SKIP_NULL, I_IS_NULL,
    I_EMIT, I_PROBE_EMIT, I_BUFFER, I_RESERVED, I_EMIT_ROW, I_DIGITS,
) = range(17)  # fmt: skip

UNBOUNDED = 2**63 - 1
"""The bound of an I_DIGITS that lets every value pass."""

COMPARISON_CODES = {name: each.kernel for name, each in COMPARISONS.items()}
ARITHMETIC = {
    name: meaning.kernel
    for name, each in FUNCTIONS.items()
    if (meaning := each.meanings.get(Kind.NUMBER)) is not None and meaning.kernel is not None
}
"""The functions on numbers that the kernel computes itself (`arithmetic`)."""
