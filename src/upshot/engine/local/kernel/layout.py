"""The words of the kernel's descriptors and instructions, as plain integer constants."""

from __future__ import annotations

from upshot.core.types import Kind
from upshot.values.conditions import COMPARISONS
from upshot.values.functions import FUNCTIONS

# State bits of a row. A row that is not in use has none of them.
OLD, NEW, DEL, TOUCHED, PROVEN = 1, 2, 4, 8, 16
"""In the state before the transaction; in the state after it; over-deleted, or checked for another proof; listed as
touched; checked and proven."""

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

T_BEST is LEAST or GREATEST if only the best row of each group is kept, else 0; T_GROUP is the index on the columns of
the group, T_VALUE the column that is compared. If codes do not have the order of their values, T_ORDER is the address
of two words: the address of the ranks of the codes, and their number.

T_DENSE is the address of the words of the dense form, 0 for a table with rows and slots."""

# The dense form: a line of cells for each combination of values of all columns but D_MOVING, and in each line a cell
# for each place of its span. Lines and places belong to blocks, one for each combination of values of the carried
# columns; a place is the number of a value of D_MOVING in its block. D_FULL is 1 after a row, written from D_KEY on,
# found no cell; cells from D_NEXT on are free; lines from D_TAIL on were added after the layout. Numbers of blocks,
# lines and places are described by NUMBER_WORDS words each. D_WHERE is the address of two words for each column: the
# numbers that have its codes, and the place of the column in them.
(
    D_FULL, D_MOVING, D_NEXT, D_TAIL, D_SHIFT, D_FIRST_LINES, D_STARTS, D_LOWS, D_BOUNDS, D_KEY, D_WHERE,
) = range(11)  # fmt: skip
N_CODES, N_COUNT, N_ROOM, N_SLOTS, N_NSLOTS, N_WIDTH, N_COLUMNS, N_OWNERS = range(8)
NUMBER_WORDS = 8
D_BLOCKS, D_LINES, D_PLACES = 11, 11 + NUMBER_WORDS, 11 + 2 * NUMBER_WORDS
DENSE_WORDS = D_PLACES + NUMBER_WORDS
"""D_STARTS: the first cell of each line; D_LOWS: the first place of its span. D_FIRST_LINES: for each 1 << D_SHIFT
cells the line of the first of them."""

# The bounds of a block: its places, used and free, and the range of lines that had all of its lines at the layout.
B_LOW, B_USED, B_HIGH, B_LINE, B_END = range(5)
BLOCK_WORDS = 5

NO_CELL = 1 << 40
"""The cell number of a row that has no cell."""

LEAST, GREATEST = 1, 2

# An index's descriptor. T_INDEX of its table names the first index, X_MORE the next one (-1: none).
X_SLOTS, X_NSLOTS, X_NKEYS, X_NEXT, X_PREV, X_NCOLS, X_MORE, X_COLS = range(8)
INDEX_WORDS = 72
MAX_INDEX_COLUMNS = INDEX_WORDS - X_COLS

# A plan's descriptor: the start of its code, its driver, when it runs, the action on its heads; the counters at its
# start in the last round.
P_CODE, P_TABLE, P_SOURCE, P_SEED, P_EXTERN, P_EMIT, P_HEAD, P_SHARED = range(8)
P_PROBED, P_MATCHED, P_DERIVED, P_CHANGED = range(8, 12)
PLAN_WORDS = 12

# The action on a derived head: insert it, add it to the overestimate, rederive it, prove it, add or subtract a
# derivation. RETURN and PROVE_ROW: rederive, or prove, the driving row itself.
INSERT, DELETE, REDERIVE, PROVE, GAIN, LOSE, RETURN, PROVE_ROW = range(8)

BLOCK = 64
"""The number of derived heads that wait in a block, so that the memory for their lookup is prefetched."""

CHUNK = 512
"""Row numbers that a worker takes at a time while several insert into one table."""

# The driver of a plan: the rows of a table, one of its lists, a single empty tuple, a buffer.
FROM_ROWS, FROM_DEL, FROM_RED, FROM_INS, FROM_UNIT, FROM_BUFFER = range(6)

# The kernel's own state between two calls; from S_COMPONENT on, the tables of the component.
(
    S_PLAN, S_NPLANS, S_ROUND, S_PC, S_RUNNING, S_BUDGET, S_DETAIL, S_MAXROUNDS, S_LIST, S_TRACE, S_RESULT,
    S_PROBED, S_DERIVED, S_CHANGED, S_MATCHED, S_NTABLES, S_POSITION, S_END, S_STEPS,
    S_BLOCK, S_PENDING, S_EMIT, S_HEAD, S_RECHECK,
    S_WORKERS, S_SHARED, S_NEXT, S_LIMIT, S_QUOTA, S_STUCK, S_WORTH, S_ROW, S_HELD, S_DRIFT,
) = range(34)  # fmt: skip
S_COMPONENT = 34

# The results of the kernel.
(
    DONE, GROW, SPENT, OVERFLOW, ZERO_DIVISION, NEGATIVE_EXPONENT, EXTERN, ROUND_ENDED, TOO_MANY_ROUNDS, RESERVED,
    SHARE, DRIFTED, TOO_LONG,
) = range(13)  # fmt: skip

# Instructions: word 0 is the operation, 1 the place to go back to on failure, 2 the next place.
(
    I_DRIVE, I_PROBE, I_SCAN, I_MEMBER, I_ABSENT, I_COMPARE, I_ARITHMETIC, I_MOVE, I_NOT_NULL, I_SKIP_NULL, I_IS_NULL,
    I_EMIT, I_PROBE_EMIT, I_BUFFER, I_RESERVED, I_EMIT_ROW, I_DIGITS,
) = range(17)  # fmt: skip

UNBOUNDED = 2**63 - 1
"""The bound of an I_DIGITS that accepts every value."""

COMPARISON_CODES = {name: each.kernel for name, each in COMPARISONS.items()}
ARITHMETIC = {
    name: meaning.kernel
    for name, each in FUNCTIONS.items()
    if (meaning := each.meanings.get(Kind.NUMBER)) is not None and meaning.kernel is not None
}
"""The functions on numbers that the kernel computes (`arithmetic`)."""
