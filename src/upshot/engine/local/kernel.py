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
    BLOCK,
    DEL,
    DELETE,
    DONE,
    EXTERN,
    FROM_BUFFER,
    FROM_DEL,
    FROM_INS,
    FROM_RED,
    FROM_ROWS,
    FROM_UNIT,
    GAIN,
    GROW,
    I_ABSENT,
    I_ARITHMETIC,
    I_BUFFER,
    I_COMPARE,
    I_DRIVE,
    I_EMIT,
    I_IS_NULL,
    I_MEMBER,
    I_NOT_NULL,
    I_PROBE,
    I_PROBE_EMIT,
    I_RESERVED,
    I_SCAN,
    I_SKIP_NULL,
    INDEX_WORDS,
    INSERT,
    NEW,
    OLD,
    P_CODE,
    P_EMIT,
    P_EXTERN,
    P_HEAD,
    P_SEED,
    P_SOURCE,
    P_TABLE,
    PLAN_WORDS,
    RESERVED,
    ROUND_ENDED,
    S_BLOCK,
    S_BUDGET,
    S_CHANGED,
    S_COMPONENT,
    S_DERIVED,
    S_DETAIL,
    S_EMIT,
    S_END,
    S_HEAD,
    S_LIST,
    S_MATCHED,
    S_MAXROUNDS,
    S_NPLANS,
    S_NTABLES,
    S_PC,
    S_PENDING,
    S_PLAN,
    S_POSITION,
    S_PROBED,
    S_RECHECK,
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
    T_NSLOTS,
    T_PLAIN,
    T_RED,
    T_ROOM,
    T_ROWS,
    T_SLOTS,
    T_USED,
    TABLE_WORDS,
    TOO_MANY_ROUNDS,
    TOUCHED,
    X_NEXT,
)  # fmt: skip
from upshot.engine.local.memory import finish, load1, load4, load8, mix, prefetch, store1, store8
from upshot.engine.local.rows_kernel import add_row, append, chain_start, equal_words, find, find_tagged

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


def start_probe(code: int, pc: int, table: int, index: int, regs: int, state: int) -> int:
    """The first row of the key's chain."""
    count = load8(code, pc + 7)
    for i in range(count):
        store8(regs, KEY + i, load8(regs, load8(code, pc + 9 + i)))
    store8(state, S_PROBED, load8(state, S_PROBED) + 1)
    return chain_start(table, index, regs)


def probe(code: int, pc: int, fresh: int, tables: int, indexes: int, regs: int, cursors: int, state: int) -> int:
    """Words: level, table, index, mask, key length, place of loads; then the key's registers."""
    table = tables + 8 * TABLE_WORDS * load8(code, pc + 4)
    index = indexes + 8 * INDEX_WORDS * load8(code, pc + 5)
    mask = load8(code, pc + 6)
    flags, following = load8(table, T_FLAGS), load8(index, X_NEXT)
    level = load8(code, pc + 3)
    if fresh == 1:
        row = start_probe(code, pc, table, index, regs, state)
    else:
        row = load4(following, load8(cursors, level))
    loads = load8(code, pc + 8)
    while row >= 0:
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


def push(code: int, at: int, regs: int, block: int, place: int, width: int, slots: int, count: int) -> None:
    """Set the derived head aside in the block and call for the slot it will be looked up in. Words: registers."""
    key = block + 8 * (BLOCK + place * width)
    state = 0
    for i in range(width):
        word = load8(regs, load8(code, at + i))
        store8(key, i, word)
        state = mix(state, word)
    tag = finish(state)
    store8(block, place, tag)
    prefetch(slots, (tag * count) >> 31)


def flush(tables: int, indexes: int, state: int) -> int:
    """Do with every head in the block what its plan says; DONE, or GROW with the rest still waiting."""
    number, kind = load8(state, S_HEAD), load8(state, S_EMIT)
    table = tables + 8 * TABLE_WORDS * number
    pending, block = load8(state, S_PENDING), load8(state, S_BLOCK)
    call_rows(table, block, pending)
    if kind == INSERT and load8(table, T_PLAIN) == 1:
        done = insert_all(table, indexes, block, pending, state)
    else:
        done = apply_all(table, indexes, block, pending, kind, state)
    store8(state, S_DERIVED, load8(state, S_DERIVED) + done)
    if done < pending:
        width = load8(table, T_ARITY)
        for i in range(done, pending):
            store8(block, i - done, load8(block, i))
            for word in range(width):
                store8(block, BLOCK + (i - done) * width + word, load8(block, BLOCK + i * width + word))
    store8(state, S_PENDING, pending - done)
    store8(state, S_DETAIL, number)
    return DONE if done == pending else GROW


def apply_all(table: int, indexes: int, block: int, pending: int, kind: int, state: int) -> int:
    """How many heads of the block were dealt with before the table had to grow."""
    width = load8(table, T_ARITY)
    changed, done = 0, 0
    while done < pending:
        applied = apply(table, indexes, block + 8 * (BLOCK + done * width), load8(block, done), kind)
        if applied < 0:
            break
        changed += applied
        done += 1
    store8(state, S_CHANGED, load8(state, S_CHANGED) + changed)
    return done


def insert_all(table: int, indexes: int, block: int, pending: int, state: int) -> int:
    """As `apply_all`, for insertions into a table whose every row is in the new state: a row found needs no look at its bits."""
    width = load8(table, T_ARITY)
    slots, count, rows = load8(table, T_SLOTS), load8(table, T_NSLOTS), load8(table, T_ROWS)
    room, changed, done = load8(table, T_ROOM), 0, 0
    while done < pending:
        key, tag = block + 8 * (BLOCK + done * width), load8(block, done)
        at = (tag * count) >> 31
        entry = load8(slots, at)
        while entry != 0:
            if (entry >> 32) == tag and equal_words(rows + 8 * ((entry & 4294967295) - 1) * width, key, width) == 1:
                break
            at += 1
            if at == count:
                at = 0
            entry = load8(slots, at)
        if entry == 0:
            if changed == room:
                break
            append(table, T_INS, add_row(table, indexes, key, tag, at, NEW))
            changed += 1
        done += 1
    store8(table, T_ROOM, room - changed)
    store8(state, S_CHANGED, load8(state, S_CHANGED) + changed)
    return done


def call_rows(table: int, block: int, pending: int) -> None:
    """Call for the rows that the block's heads will probably be compared with."""
    slots, count = load8(table, T_SLOTS), load8(table, T_NSLOTS)
    rows, flags, width = load8(table, T_ROWS), load8(table, T_FLAGS), load8(table, T_ARITY)
    plain = load8(table, T_PLAIN)
    for i in range(pending):
        tag = load8(block, i)
        entry = load8(slots, (tag * count) >> 31)
        if (entry >> 32) == tag:
            row = (entry & 4294967295) - 1
            prefetch(rows, row * width)
            if plain == 0:
                prefetch(flags, row >> 3)


def apply(table: int, indexes: int, key: int, tag: int, kind: int) -> int:
    """1 if the head changed the table, 0 if it was known, -1 if the table must grow first."""
    row = find_tagged(table, key, tag)
    if kind == INSERT:
        return apply_insert(table, indexes, key, tag, row)
    if kind >= GAIN:
        return apply_count(table, indexes, key, tag, row, 1 if kind == GAIN else -1)
    if row < 0:
        return 0
    flags = load8(table, T_FLAGS)
    bits = load1(flags, row)
    if kind == DELETE:
        if not (bits & OLD) or (bits & DEL):
            return 0
        if load8(table, T_NDEL) >= load8(table, T_CAPDEL):
            return -1
        store1(flags, row, (bits | DEL) & ~NEW)
        append(table, T_DEL, row)
    else:
        if not (bits & DEL) or (bits & NEW):
            return 0
        if load8(table, T_NRED) >= load8(table, T_CAPRED):
            return -1
        store1(flags, row, bits | NEW)
        append(table, T_RED, row)
    return 1


def apply_insert(table: int, indexes: int, key: int, tag: int, row: int) -> int:
    """The row becomes part of the new state."""
    flags = load8(table, T_FLAGS)
    if row >= 0 and (load1(flags, row) & NEW):
        return 0
    if load8(table, T_ROOM) <= 0:
        return -1
    if row >= 0:
        store1(flags, row, load1(flags, row) | NEW)
    else:
        row = add_row(table, indexes, key, tag, -1 - row, NEW)
    append(table, T_INS, row)
    store8(table, T_ROOM, load8(table, T_ROOM) - 1)
    return 1


def apply_count(table: int, indexes: int, key: int, tag: int, row: int, sign: int) -> int:
    """The row has one derivation more or less."""
    if load8(table, T_ROOM) <= 0 or load8(table, T_NRED) >= load8(table, T_CAPRED):
        return -1
    flags = load8(table, T_FLAGS)
    if row < 0:
        row = add_row(table, indexes, key, tag, -1 - row, TOUCHED)
        store8(table, T_ROOM, load8(table, T_ROOM) - 1)
        append(table, T_RED, row)
    elif not (load1(flags, row) & TOUCHED):
        store1(flags, row, load1(flags, row) | TOUCHED)
        append(table, T_RED, row)
    gain = load8(table, T_GAIN)
    store8(gain, row, load8(gain, row) + sign)
    return 1


def emit(code: int, pc: int, tables: int, indexes: int, regs: int, state: int) -> int:
    """Words: count, registers."""
    if load8(state, S_PENDING) == BLOCK and flush(tables, indexes, state) != DONE:
        return suspend(state, GROW, load8(state, S_HEAD), pc)
    head = tables + 8 * TABLE_WORDS * load8(state, S_HEAD)
    pending = load8(state, S_PENDING)
    slots, count = load8(head, T_SLOTS), load8(head, T_NSLOTS)
    push(code, pc + 4, regs, load8(state, S_BLOCK), pending, load8(code, pc + 3), slots, count)
    store8(state, S_PENDING, pending + 1)
    return go_back(code, pc)


def probe_emit(code: int, pc: int, fresh: int, tables: int, indexes: int, regs: int, cursors: int, state: int) -> int:
    """A probe whose every match is a head: both instructions in one loop. Words: as of a probe, the place of the emitted
    registers in the word before the loads."""
    table = tables + 8 * TABLE_WORDS * load8(code, pc + 4)
    index = indexes + 8 * INDEX_WORDS * load8(code, pc + 5)
    head = tables + 8 * TABLE_WORDS * load8(state, S_HEAD)
    mask, level, loads = load8(code, pc + 6), load8(code, pc + 3), load8(code, pc + 8)
    flags, following = load8(table, T_FLAGS), load8(index, X_NEXT)
    slots, count = load8(head, T_SLOTS), load8(head, T_NSLOTS)
    emitted, block, pending = load8(code, loads - 1), load8(state, S_BLOCK), load8(state, S_PENDING)
    width = load8(code, emitted)
    if fresh == 1:
        row = start_probe(code, pc, table, index, regs, state)
    else:
        row = load4(following, load8(cursors, level))
    matched = 0
    while row >= 0:
        if (load1(flags, row) & mask) == mask and take_row(code, loads, table, row, regs) == 1:
            matched += 1
            push(code, emitted + 1, regs, block, pending, width, slots, count)
            pending += 1
            if pending == BLOCK:
                store8(state, S_PENDING, pending)
                if flush(tables, indexes, state) != DONE:
                    store8(cursors, level, row)
                    store8(state, S_MATCHED, load8(state, S_MATCHED) + matched)
                    return suspend(state, GROW, load8(state, S_HEAD), -pc)
                pending = 0
        row = load4(following, row)
    store8(state, S_PENDING, pending)
    store8(state, S_MATCHED, load8(state, S_MATCHED) + matched)
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


def reserved(code: int, pc: int, regs: int, state: int) -> int:
    """A value on its way into a nullable column must not be the one that means NULL there. Words: that code, register."""
    if load8(regs, load8(code, pc + 4)) == load8(code, pc + 3):
        return suspend(state, RESERVED, pc, pc)
    return load8(code, pc + 2)


def test(code: int, pc: int, op: int, regs: int) -> int:
    """Comparisons and NULL tests, which need nothing but registers; a NULL test's first word is the code of NULL."""
    first = load8(regs, load8(code, pc + 4))
    if op == I_COMPARE:
        holds = compare(load8(code, pc + 3), first, load8(regs, load8(code, pc + 5)))
    elif op == I_NOT_NULL:
        holds = 1 if first != load8(code, pc + 3) else 0
    elif op == I_IS_NULL:
        holds = 1 if first == load8(code, pc + 3) else 0
    elif op == I_SKIP_NULL:
        return load8(code, pc + 5) if first == load8(code, pc + 3) else load8(code, pc + 2)
    else:
        store8(regs, load8(code, pc + 3), first)
        holds = 1
    return load8(code, pc + 2) if holds == 1 else go_back(code, pc)


def execute(code: int, pc: int, tables: int, indexes: int, regs: int, cursors: int, state: int) -> int:
    """Run one plan from `pc` until its driver is exhausted (DONE) or something must be done first."""
    fresh = 1
    budget = load8(state, S_BUDGET)
    steps = 0
    if load8(state, S_PENDING) > 0 and flush(tables, indexes, state) != DONE:
        return GROW
    store8(state, S_RESULT, DONE)
    while pc != 0:
        if pc < 0:
            pc, fresh = -pc, 0
        op = load8(code, pc)
        steps += 1
        if op == I_PROBE:
            pc = probe(code, pc, fresh, tables, indexes, regs, cursors, state)
        elif op == I_PROBE_EMIT:
            pc = probe_emit(code, pc, fresh, tables, indexes, regs, cursors, state)
        elif op == I_EMIT:
            pc = emit(code, pc, tables, indexes, regs, state)
        elif op == I_DRIVE:
            if steps > budget:
                pc = suspend(state, SPENT, 0, pc)
            else:
                pc = drive(code, pc, fresh, tables, regs, state)
        elif op == I_MEMBER:
            pc = member(code, pc, 1, tables, regs, state)
        elif op == I_ABSENT:
            pc = member(code, pc, 0, tables, regs, state)
        elif op == I_ARITHMETIC:
            pc = calculate(code, pc, regs, state)
        elif op == I_SCAN:
            pc = scan(code, pc, fresh, tables, regs, cursors, state)
        elif op == I_RESERVED:
            pc = reserved(code, pc, regs, state)
        elif op == I_BUFFER:
            pc = emit_buffer(code, pc, tables, regs, state)
        else:
            pc = test(code, pc, op, regs)
        fresh = 1
    store8(state, S_BUDGET, budget - steps)
    store8(state, S_STEPS, load8(state, S_STEPS) + steps)
    if load8(state, S_RESULT) == DONE and flush(tables, indexes, state) != DONE:
        store8(state, S_PC, 0)
        return GROW
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
    found, missing = 0, 0
    for i in range(load8(state, S_NTABLES)):
        table = tables + 8 * TABLE_WORDS * load8(state, S_COMPONENT + i)
        first, end = load8(table, T_HI), list_length(table, kind)
        store8(table, T_LO, first)
        store8(table, T_HI, end)
        found += end - first
        missing += load8(table, T_NDEL) - load8(table, T_NRED)
    store8(state, S_ROUND, load8(state, S_ROUND) + 1)
    if kind == FROM_RED:
        if missing == 0:
            return 0
        # Few rows are still missing: look at each of them again rather than at all that the found ones derive. Rows found
        # in earlier rounds were there when a missing row was last looked at, so only the last round's can help it.
        store8(state, S_RECHECK, 1 if missing < found else 0)
    return found


def runs_now(plan: int, tables: int, state: int) -> int:
    """Seeds run in the first round, the others while their driver has new rows; in a recheck it is the other way round."""
    seed = load8(plan, P_SEED)
    if load8(state, S_ROUND) == 0 or load8(state, S_RECHECK) == 1:
        return seed
    if seed == 1:
        return 0
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
                store8(state, S_EMIT, load8(plan, P_EMIT))
                store8(state, S_HEAD, load8(plan, P_HEAD))
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
    go_back, drive, take_row, start_probe, probe, scan, gather, member, push, call_rows, insert_all, apply_insert, apply_count, apply,
    apply_all, flush,
    emit, probe_emit, emit_buffer,
    suspend, calculate, reserved, test, execute, list_length, begin_plan, end_round, runs_now, begin_plan_on_buffer,
)  # fmt: skip
ENTRIES = (run,)
