"""The words of the kernel's descriptors and instructions, as plain integer constants."""

from __future__ import annotations

# State bits of a row. A row that is not in use has none of them.
OLD, NEW, DEL, TOUCHED = 1, 2, 4, 8
"""In the state before the transaction; in the state after it; over-deleted; listed as touched."""

NULL = -(2**63)
"""The code of NULL in every nullable column."""

# A table's descriptor: TABLE_WORDS 64-bit words.
(
    T_ROWS, T_FLAGS, T_SLOTS, T_NSLOTS, T_USED, T_LIVE, T_ROOM, T_ARITY,
    T_FREE, T_NFREE, T_COUNT, T_GAIN, T_LO, T_HI, T_INDEX, T_NINDEX,
    T_DEL, T_NDEL, T_CAPDEL, T_RED, T_NRED, T_CAPRED, T_INS, T_NINS, T_CAPINS,
) = range(25)  # fmt: skip
TABLE_WORDS = 32

# An index's descriptor. T_INDEX of its table names the first index, X_MORE the next one (-1: none).
X_SLOTS, X_NSLOTS, X_NKEYS, X_NEXT, X_PREV, X_NCOLS, X_MORE, X_COLS = range(8)
INDEX_WORDS = 24
MAX_INDEX_COLUMNS = INDEX_WORDS - X_COLS

# A plan's descriptor: where its code starts, what drives it, when it runs.
P_CODE, P_TABLE, P_SOURCE, P_SEED, P_EXTERN = range(5)
PLAN_WORDS = 8

# What a plan is driven by: the rows of a table, one of its lists, a single empty tuple, a buffer.
FROM_ROWS, FROM_DEL, FROM_RED, FROM_INS, FROM_UNIT, FROM_BUFFER = range(6)

# The kernel's own state between two calls.
(
    S_PLAN, S_NPLANS, S_ROUND, S_PC, S_RUNNING, S_BUDGET, S_DETAIL, S_MAXROUNDS, S_LIST, S_TRACE, S_RESULT,
    S_PROBED, S_DERIVED, S_CHANGED, S_MATCHED, S_NTABLES, S_TABLES, S_POSITION, S_END, S_STEPS,
) = range(20)  # fmt: skip
STATE_WORDS = 128
"""S_TABLES.. is not a range: the tables of the component stand from word 32 on."""
S_COMPONENT = 32

# What the kernel answers.
DONE, GROW, SPENT, OVERFLOW, ZERO_DIVISION, NEGATIVE_EXPONENT, EXTERN, ROUND_ENDED, TOO_MANY_ROUNDS = range(9)

# Instructions: word 0 the operation, 1 where to go back to on failure, 2 where to go on.
(
    I_DRIVE, I_PROBE, I_SCAN, I_MEMBER, I_ABSENT, I_COMPARE, I_ARITHMETIC, I_MOVE, I_NOT_NULL, I_SKIP_NULL, I_IS_NULL,
    I_INSERT, I_DELETE, I_REDERIVE, I_COUNT, I_BUFFER,
) = range(16)  # fmt: skip

COMPARISONS = {"=": 0, "!=": 1, "<": 2, "<=": 3, ">": 4, ">=": 5}
ARITHMETIC = {
    name: code
    for code, name in enumerate(
        ("+", "-", "*", "/", "%", "^", "neg", "band", "bor", "bxor", "bnot", "bshl", "bshr", "max", "min")
    )
}
