"""The kernel: sets of rows, indexes on them, and the machine that runs a component's rule plans to their fixpoint.

Written in the part of Python that Numba compiles, on 64-bit integers and addresses only; it also runs as it stands, for inputs
too small to pay for loading Numba. Every function can stop half-way (to grow a table, to let Python compute a functor, when
its budget is spent) and goes on from its state words when called again.

A set is a table of rows in use plus open-addressing slots of `tag << 32 | row + 1`, linearly probed from
`tag * slots >> 31`; the order of homes is the order of tags, so a table is rehashed by one sequential pass without reading rows,
and a deletion shifts later entries back without reading them either.
"""

from __future__ import annotations

from upshot.engine.local.arithmetic import arithmetic, compare
from upshot.engine.local.layout import (
    DEL,
    DONE,
    EXTERN,
    FROM_BUFFER,
    FROM_DEL,
    FROM_INS,
    FROM_RED,
    FROM_ROWS,
    FROM_UNIT,
    GROW,
    I_ABSENT,
    I_ARITHMETIC,
    I_BUFFER,
    I_COMPARE,
    I_COUNT,
    I_DELETE,
    I_DRIVE,
    I_INSERT,
    I_IS_NULL,
    I_MEMBER,
    I_NOT_NULL,
    I_PROBE,
    I_REDERIVE,
    I_SCAN,
    I_SKIP_NULL,
    INDEX_WORDS,
    NEW,
    NULL,
    OLD,
    P_CODE,
    P_EXTERN,
    P_SEED,
    P_SOURCE,
    P_TABLE,
    PLAN_WORDS,
    ROUND_ENDED,
    S_BUDGET,
    S_CHANGED,
    S_COMPONENT,
    S_DERIVED,
    S_DETAIL,
    S_END,
    S_LIST,
    S_MATCHED,
    S_MAXROUNDS,
    S_NPLANS,
    S_NTABLES,
    S_PC,
    S_PLAN,
    S_POSITION,
    S_PROBED,
    S_RESULT,
    S_ROUND,
    S_RUNNING,
    S_STEPS,
    S_TRACE,
    SPENT,
    T_ARITY,
    T_CAPDEL,
    T_CAPRED,
    T_DEL,
    T_FLAGS,
    T_GAIN,
    T_HI,
    T_INS,
    T_LO,
    T_NDEL,
    T_NINS,
    T_NRED,
    T_RED,
    T_ROOM,
    T_ROWS,
    T_USED,
    TABLE_WORDS,
    TOO_MANY_ROUNDS,
    TOUCHED,
    X_NEXT,
)  # fmt: skip
from upshot.engine.local.memory import load1, load4, load8, store1, store8
from upshot.engine.local.rows_kernel import add_row, append, chain_start, find

KEY = 0
"""Word 0 of the scratch area: the candidate row that is looked up. The registers stand behind it."""


# ---- one instruction each: the answer is the next place, negative when it is reached by going back ---------


def go_back(code: int, pc: int) -> int:
    return -load8(code, pc + 1)


def drive(code: int, pc: int, fresh: int, tables: int, regs: int, state: int) -> int:
    """Words: level, table, source, mask and value of the bits, number of loads and checks, (column, register) pairs."""
    position = load8(state, S_POSITION)
    end = load8(state, S_END)
    source = load8(code, pc + 5)
    if source == FROM_UNIT:
        store8(state, S_POSITION, 1)
        return load8(code, pc + 2) if position < end else 0
    table = tables + 8 * TABLE_WORDS * load8(code, pc + 4)
    flags, mask, value = load8(table, T_FLAGS), load8(code, pc + 6), load8(code, pc + 7)
    listed = 0
    if source == FROM_DEL:
        listed = load8(table, T_DEL)
    elif source == FROM_RED:
        listed = load8(table, T_RED)
    elif source == FROM_INS:
        listed = load8(table, T_INS)
    while position < end:
        row = position
        if listed != 0:
            row = load4(listed, position)
        position += 1
        if source != FROM_BUFFER and (load1(flags, row) & mask) != value:
            continue
        if take_row(code, pc + 8, table, row, regs) == 1:
            store8(state, S_POSITION, position)
            return load8(code, pc + 2)
    store8(state, S_POSITION, position)
    return 0


def take_row(code: int, at: int, table: int, row: int, regs: int) -> int:
    """Load the row's columns into registers, then check columns against registers; 1 if all checks hold."""
    base = load8(table, T_ROWS) + 8 * row * load8(table, T_ARITY)
    loads, checks = load8(code, at), load8(code, at + 1)
    at += 2
    for _ in range(loads):
        store8(regs, load8(code, at + 1), load8(base, load8(code, at)))
        at += 2
    for _ in range(checks):
        if load8(base, load8(code, at)) != load8(regs, load8(code, at + 1)):
            return 0
        at += 2
    return 1


def probe(code: int, pc: int, fresh: int, tables: int, indexes: int, regs: int, cursors: int, state: int) -> int:
    """Words: level, table, index, mask, key length, place of loads; then the key's registers."""
    table = tables + 8 * TABLE_WORDS * load8(code, pc + 4)
    index = indexes + 8 * INDEX_WORDS * load8(code, pc + 5)
    mask = load8(code, pc + 6)
    flags, following = load8(table, T_FLAGS), load8(index, X_NEXT)
    level = load8(code, pc + 3)
    if fresh == 1:
        count = load8(code, pc + 7)
        for i in range(count):
            store8(regs, KEY + i, load8(regs, load8(code, pc + 9 + i)))
        row = chain_start(table, index, regs)
        store8(state, S_PROBED, load8(state, S_PROBED) + 1)
    else:
        row = load4(following, load8(cursors, level))
    loads = load8(code, pc + 8)
    steps = 0
    while row >= 0:
        steps += 1
        if (load1(flags, row) & mask) == mask and take_row(code, loads, table, row, regs) == 1:
            store8(cursors, level, row)
            store8(state, S_MATCHED, load8(state, S_MATCHED) + 1)
            return load8(code, pc + 2)
        row = load4(following, row)
    return go_back(code, pc)


def scan(code: int, pc: int, fresh: int, tables: int, regs: int, cursors: int, state: int) -> int:
    """Every row in the state; words: level, table, mask, then loads and checks."""
    table = tables + 8 * TABLE_WORDS * load8(code, pc + 4)
    mask, level = load8(code, pc + 5), load8(code, pc + 3)
    flags, used = load8(table, T_FLAGS), load8(table, T_USED)
    row = 0
    if fresh == 0:
        row = load8(cursors, level) + 1
    while row < used:
        if (load1(flags, row) & mask) == mask and take_row(code, pc + 6, table, row, regs) == 1:
            store8(cursors, level, row)
            store8(state, S_MATCHED, load8(state, S_MATCHED) + 1)
            return load8(code, pc + 2)
        row += 1
    return go_back(code, pc)


def gather(code: int, at: int, regs: int) -> None:
    """The candidate row from registers: words: count, registers."""
    for i in range(load8(code, at)):
        store8(regs, KEY + i, load8(regs, load8(code, at + 1 + i)))


def member(code: int, pc: int, wanted: int, tables: int, regs: int, state: int) -> int:
    """Is the row there in the state? Words: table, mask, count, registers."""
    table = tables + 8 * TABLE_WORDS * load8(code, pc + 3)
    mask = load8(code, pc + 4)
    gather(code, pc + 5, regs)
    store8(state, S_PROBED, load8(state, S_PROBED) + 1)
    row = find(table, regs)
    found = 0
    if row >= 0 and (load1(load8(table, T_FLAGS), row) & mask) == mask:
        found = 1
    return load8(code, pc + 2) if found == wanted else go_back(code, pc)


def emit_insert(code: int, pc: int, tables: int, indexes: int, regs: int, state: int) -> int:
    """The row becomes part of the new state. Words: table, count, registers."""
    number = load8(code, pc + 3)
    table = tables + 8 * TABLE_WORDS * number
    gather(code, pc + 4, regs)
    row = find(table, regs)
    if row >= 0:
        flags = load8(table, T_FLAGS)
        bits = load1(flags, row)
        if bits & NEW:
            store8(state, S_DERIVED, load8(state, S_DERIVED) + 1)
            return go_back(code, pc)
        if load8(table, T_ROOM) <= 0:
            return suspend(state, GROW, number, pc)
        store1(flags, row, bits | NEW)
        append(table, T_INS, row)
    else:
        if load8(table, T_ROOM) <= 0:
            return suspend(state, GROW, number, pc)
        append(table, T_INS, add_row(table, indexes, regs, -1 - row, NEW))
    store8(table, T_ROOM, load8(table, T_ROOM) - 1)
    store8(state, S_DERIVED, load8(state, S_DERIVED) + 1)
    store8(state, S_CHANGED, load8(state, S_CHANGED) + 1)
    return go_back(code, pc)


def emit_delete(code: int, pc: int, tables: int, regs: int, state: int) -> int:
    """The row joins the deletion overestimate."""
    number = load8(code, pc + 3)
    table = tables + 8 * TABLE_WORDS * number
    gather(code, pc + 4, regs)
    row = find(table, regs)
    if row >= 0:
        flags = load8(table, T_FLAGS)
        bits = load1(flags, row)
        if (bits & OLD) and not (bits & DEL):
            if load8(table, T_NDEL) >= load8(table, T_CAPDEL):
                return suspend(state, GROW, number, pc)
            store1(flags, row, (bits | DEL) & ~NEW)
            append(table, T_DEL, row)
            store8(state, S_CHANGED, load8(state, S_CHANGED) + 1)
    store8(state, S_DERIVED, load8(state, S_DERIVED) + 1)
    return go_back(code, pc)


def emit_rederive(code: int, pc: int, tables: int, regs: int, state: int) -> int:
    """An over-deleted row turns out to be derivable still."""
    number = load8(code, pc + 3)
    table = tables + 8 * TABLE_WORDS * number
    gather(code, pc + 4, regs)
    row = find(table, regs)
    if row >= 0:
        flags = load8(table, T_FLAGS)
        bits = load1(flags, row)
        if (bits & DEL) and not (bits & NEW):
            if load8(table, T_NRED) >= load8(table, T_CAPRED):
                return suspend(state, GROW, number, pc)
            store1(flags, row, bits | NEW)
            append(table, T_RED, row)
            store8(state, S_CHANGED, load8(state, S_CHANGED) + 1)
    store8(state, S_DERIVED, load8(state, S_DERIVED) + 1)
    return go_back(code, pc)


def emit_count(code: int, pc: int, tables: int, indexes: int, regs: int, state: int) -> int:
    """One derivation more or less. Words: table, count, registers, then the sign."""
    number = load8(code, pc + 3)
    table = tables + 8 * TABLE_WORDS * number
    if load8(table, T_ROOM) <= 0 or load8(table, T_NRED) >= load8(table, T_CAPRED):
        return suspend(state, GROW, number, pc)
    gather(code, pc + 4, regs)
    row = find(table, regs)
    flags = load8(table, T_FLAGS)
    if row < 0:
        row = add_row(table, indexes, regs, -1 - row, TOUCHED)
        store8(table, T_ROOM, load8(table, T_ROOM) - 1)
        append(table, T_RED, row)
    elif not (load1(flags, row) & TOUCHED):
        store1(flags, row, load1(flags, row) | TOUCHED)
        append(table, T_RED, row)
    gain = load8(table, T_GAIN)
    store8(gain, row, load8(gain, row) + load8(code, pc + 5 + load8(code, pc + 4)))
    store8(state, S_DERIVED, load8(state, S_DERIVED) + 1)
    return go_back(code, pc)


def emit_buffer(code: int, pc: int, tables: int, regs: int, state: int) -> int:
    """Registers set aside for a step that Python computes."""
    number = load8(code, pc + 3)
    table = tables + 8 * TABLE_WORDS * number
    if load8(table, T_ROOM) <= 0:
        return suspend(state, GROW, number, pc)
    gather(code, pc + 4, regs)
    used, arity = load8(table, T_USED), load8(table, T_ARITY)
    rows = load8(table, T_ROWS)
    for i in range(arity):
        store8(rows, used * arity + i, load8(regs, KEY + i))
    store8(table, T_USED, used + 1)
    store8(table, T_ROOM, load8(table, T_ROOM) - 1)
    return go_back(code, pc)


def suspend(state: int, result: int, detail: int, pc: int) -> int:
    """Stop here; the same instruction runs again, afresh, when the kernel is called next."""
    store8(state, S_RESULT, result)
    store8(state, S_DETAIL, detail)
    store8(state, S_PC, pc)
    return 0


def calculate(code: int, pc: int, regs: int, state: int) -> int:
    """Words: operation, target, left, right."""
    left, right = load8(regs, load8(code, pc + 5)), load8(regs, load8(code, pc + 6))
    target = regs + 8 * load8(code, pc + 4)
    failed = arithmetic(load8(code, pc + 3), left, right, target)
    if failed != DONE:
        return suspend(state, failed, pc, pc)
    return load8(code, pc + 2)


def test(code: int, pc: int, op: int, regs: int) -> int:
    """Comparisons and NULL tests, which need nothing but registers."""
    first = load8(regs, load8(code, pc + 4))
    if op == I_COMPARE:
        holds = compare(load8(code, pc + 3), first, load8(regs, load8(code, pc + 5)))
    elif op == I_NOT_NULL:
        holds = 1 if first != NULL else 0
    elif op == I_IS_NULL:
        holds = 1 if first == NULL else 0
    elif op == I_SKIP_NULL:
        return load8(code, pc + 5) if first == NULL else load8(code, pc + 2)
    else:
        store8(regs, load8(code, pc + 3), first)
        holds = 1
    return load8(code, pc + 2) if holds == 1 else go_back(code, pc)


def execute(code: int, pc: int, tables: int, indexes: int, regs: int, cursors: int, state: int) -> int:
    """Run one plan from `pc` until its driver is exhausted (DONE) or something must be done first."""
    fresh = 1
    budget = load8(state, S_BUDGET)
    steps = 0
    store8(state, S_RESULT, DONE)
    while pc != 0:
        if pc < 0:
            pc, fresh = -pc, 0
        op = load8(code, pc)
        steps += 1
        if op == I_PROBE:
            pc = probe(code, pc, fresh, tables, indexes, regs, cursors, state)
        elif op == I_INSERT:
            pc = emit_insert(code, pc, tables, indexes, regs, state)
        elif op == I_DRIVE:
            if steps > budget:
                pc = suspend(state, SPENT, 0, pc)
            else:
                pc = drive(code, pc, fresh, tables, regs, state)
        elif op == I_MEMBER:
            pc = member(code, pc, 1, tables, regs, state)
        elif op == I_ABSENT:
            pc = member(code, pc, 0, tables, regs, state)
        elif op == I_DELETE:
            pc = emit_delete(code, pc, tables, regs, state)
        elif op == I_REDERIVE:
            pc = emit_rederive(code, pc, tables, regs, state)
        elif op == I_COUNT:
            pc = emit_count(code, pc, tables, indexes, regs, state)
        elif op == I_ARITHMETIC:
            pc = calculate(code, pc, regs, state)
        elif op == I_SCAN:
            pc = scan(code, pc, fresh, tables, regs, cursors, state)
        elif op == I_BUFFER:
            pc = emit_buffer(code, pc, tables, regs, state)
        else:
            pc = test(code, pc, op, regs)
        fresh = 1
    store8(state, S_BUDGET, budget - steps)
    store8(state, S_STEPS, load8(state, S_STEPS) + steps)
    return load8(state, S_RESULT)


# ---- a component's fixpoint --------------------------------------------------------------------------------


def list_length(table: int, kind: int) -> int:
    if kind == FROM_DEL:
        return load8(table, T_NDEL)
    if kind == FROM_RED:
        return load8(table, T_NRED)
    return load8(table, T_NINS)


def begin_plan(plan: int, tables: int, state: int) -> None:
    """Set the range of driving rows: a whole list or table, or the rows new since the last round."""
    table = tables + 8 * TABLE_WORDS * load8(plan, P_TABLE)
    source = load8(plan, P_SOURCE)
    first, end = 0, 0
    if load8(plan, P_SEED) == 0:
        first, end = load8(table, T_LO), load8(table, T_HI)
    elif source == FROM_UNIT:
        end = 1
    elif source == FROM_ROWS or source == FROM_BUFFER:
        end = load8(table, T_USED)
    else:
        end = list_length(table, source)
    store8(state, S_POSITION, first)
    store8(state, S_END, end)


def end_round(tables: int, state: int) -> int:
    """Make what this round found the driving rows of the next; the answer is how many there are."""
    kind = load8(state, S_LIST)
    found = 0
    for i in range(load8(state, S_NTABLES)):
        table = tables + 8 * TABLE_WORDS * load8(state, S_COMPONENT + i)
        first, end = load8(table, T_HI), list_length(table, kind)
        store8(table, T_LO, first)
        store8(table, T_HI, end)
        found += end - first
    store8(state, S_ROUND, load8(state, S_ROUND) + 1)
    return found


def runs_now(plan: int, tables: int, state: int) -> int:
    """Seeds run in the first round, the others while their driver has new rows."""
    if load8(plan, P_SEED) == 1:
        return 1 if load8(state, S_ROUND) == 0 else 0
    if load8(plan, P_SOURCE) == FROM_BUFFER:
        return 1
    table = tables + 8 * TABLE_WORDS * load8(plan, P_TABLE)
    return 1 if load8(table, T_LO) < load8(table, T_HI) else 0


def run(code: int, plans: int, tables: int, indexes: int, regs: int, cursors: int, state: int) -> int:
    """Rounds of all plans until nothing new is found; DONE, or what must be done before going on."""
    while True:
        number = load8(state, S_PLAN)
        while number < load8(state, S_NPLANS):
            plan = plans + 8 * PLAN_WORDS * number
            if load8(state, S_RUNNING) == 0:
                if runs_now(plan, tables, state) == 0:
                    number += 1
                    store8(state, S_PLAN, number)
                    continue
                store8(state, S_RUNNING, 1)
                store8(state, S_PC, load8(plan, P_CODE))
                if load8(plan, P_EXTERN) >= 0:
                    store8(state, S_DETAIL, load8(plan, P_EXTERN))
                    store8(state, S_RUNNING, 2)
                    return EXTERN
                begin_plan(plan, tables, state)
            if load8(state, S_RUNNING) == 2:
                store8(state, S_RUNNING, 1)
                begin_plan_on_buffer(plan, tables, state)
            result = execute(code, load8(state, S_PC), tables, indexes, regs, cursors, state)
            if result != DONE:
                return result
            number += 1
            store8(state, S_PLAN, number)
            store8(state, S_RUNNING, 0)
        if end_round(tables, state) == 0:
            return DONE
        store8(state, S_PLAN, 0)
        if load8(state, S_ROUND) >= load8(state, S_MAXROUNDS):
            return TOO_MANY_ROUNDS
        if load8(state, S_TRACE) == 1:
            return ROUND_ENDED


def begin_plan_on_buffer(plan: int, tables: int, state: int) -> None:
    table = tables + 8 * TABLE_WORDS * load8(plan, P_TABLE)
    store8(state, S_POSITION, 0)
    store8(state, S_END, load8(table, T_USED))


INNER = (
    go_back, drive, take_row, probe, scan, gather, member, emit_insert, emit_delete, emit_rederive, emit_count, emit_buffer,
    suspend, calculate, test, execute, list_length, begin_plan, end_round, runs_now, begin_plan_on_buffer,
)  # fmt: skip
ENTRIES = (run,)
