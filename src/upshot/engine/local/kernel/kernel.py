"""The kernel: the machine that runs a component's rule plans to their fixpoint.

It is written in the part of Python that Numba compiles, on 64-bit integers and addresses only. It also runs
uncompiled, for inputs that are too small to justify loading Numba. It can stop at any instruction (to grow a table, to
let Python compute a functor, when its budget is spent) and continues from its state words at the next call.
"""

from __future__ import annotations

from upshot.engine.local.kernel import layout as L
from upshot.engine.local.kernel.heads import flush
from upshot.engine.local.kernel.instructions import (
    calculate,
    drive,
    emit,
    emit_buffer,
    emit_row,
    fits,
    member,
    probe,
    probe_emit,
    scan,
    suspend,
    test,
)  # fmt: skip
from upshot.engine.local.kernel.memory import load8, store8
from upshot.engine.local.kernel.sets import list_end


def execute(code: int, pc: int, tables: int, indexes: int, regs: int, cursors: int, state: int) -> int:
    """Run one plan from `pc` until its driver is exhausted (L.DONE) or the kernel must stop."""
    fresh = 1
    budget = load8(state, L.S_BUDGET)
    steps = 0
    # Heads that found no room come first; other heads wait, as if the kernel had not stopped.
    if load8(state, L.S_STUCK) == 1 and flush(tables, indexes, state) != L.DONE:
        return L.GROW
    store8(state, L.S_RESULT, L.DONE)
    while pc != 0:
        if pc < 0:
            pc, fresh = -pc, 0
        op = load8(code, pc)
        steps += 1
        if steps > budget and fresh == 0 and (op == L.I_PROBE or op == L.I_SCAN):
            # An inner join can take arbitrarily long for one driving row.
            pc = suspend(state, L.SPENT, 0, -pc)
        elif op == L.I_PROBE:
            pc = probe(code, pc, fresh, tables, indexes, regs, cursors, state)
        elif op == L.I_PROBE_EMIT:
            pc = probe_emit(code, pc, fresh, tables, indexes, regs, cursors, state)
        elif op == L.I_EMIT:
            pc = emit(code, pc, tables, indexes, regs, state)
        elif op == L.I_DRIVE:
            spent = steps > budget
            pc = suspend(state, L.SPENT, 0, pc) if spent else drive(code, pc, fresh, tables, regs, state)
        elif op == L.I_MEMBER:
            pc = member(code, pc, 1, tables, regs, state)
        elif op == L.I_ABSENT:
            pc = member(code, pc, 0, tables, regs, state)
        elif op == L.I_ARITHMETIC:
            pc = calculate(code, pc, regs, state)
        elif op == L.I_SCAN:
            pc = scan(code, pc, fresh, tables, regs, cursors, state)
        elif op == L.I_EMIT_ROW:
            pc = emit_row(code, pc, tables, indexes, state)
        elif op == L.I_RESERVED or op == L.I_DIGITS:
            pc = fits(code, pc, op, regs, state)
        elif op == L.I_BUFFER:
            pc = emit_buffer(code, pc, tables, regs, state)
        else:
            pc = test(code, pc, op, regs)
        fresh = 1
    store8(state, L.S_BUDGET, budget - steps)
    store8(state, L.S_STEPS, load8(state, L.S_STEPS) + steps)
    if load8(state, L.S_RESULT) == L.DONE and flush(tables, indexes, state) != L.DONE:
        store8(state, L.S_PC, 0)
        return L.GROW
    return load8(state, L.S_RESULT)


def list_length(table: int, kind: int) -> int:
    if kind == L.FROM_DEL:
        return load8(table, L.T_NDEL)
    if kind == L.FROM_RED:
        return load8(table, L.T_NRED)
    return load8(table, L.T_NINS)


def begin_plan(plan: int, tables: int, state: int) -> None:
    """Set the range of driving rows: a whole list or table, or the rows added since the last round."""
    table = tables + 8 * L.TABLE_WORDS * load8(plan, L.P_TABLE)
    source = load8(plan, L.P_SOURCE)
    first, end = 0, 0
    if load8(plan, L.P_SEED) == 0:
        first, end = load8(table, L.T_LO), load8(table, L.T_HI)
    elif source == L.FROM_UNIT:
        end = 1
    elif source == L.FROM_ROWS or source == L.FROM_BUFFER:
        end = load8(table, L.T_USED)
    elif source == L.FROM_INS:
        end = list_end(table, L.T_INS)
    else:
        end = list_length(table, source)
    store8(state, L.S_POSITION, first)
    store8(state, L.S_END, end)


def is_worth_sharing(plan: int, tables: int, state: int) -> int:
    """Test whether workers should share the plan, each with a part of its driving rows."""
    if load8(state, L.S_WORKERS) < 2 or load8(plan, L.P_SHARED) == 0:
        return 0
    head = tables + 8 * L.TABLE_WORDS * load8(plan, L.P_HEAD)
    if load8(head, L.T_PLAIN) == 0 or load8(head, L.T_INDEX) >= 0:
        return 0
    return 1 if load8(state, L.S_END) - load8(state, L.S_POSITION) >= load8(state, L.S_WORTH) else 0


def begin_plan_on_buffer(plan: int, tables: int, state: int) -> None:
    table = tables + 8 * L.TABLE_WORDS * load8(plan, L.P_TABLE)
    store8(state, L.S_POSITION, 0)
    store8(state, L.S_END, load8(table, L.T_USED))


def end_round(tables: int, state: int) -> int:
    """Make the rows of this round the driving rows of the next; return their number."""
    kind = load8(state, L.S_LIST)
    found, missing, held = 0, 0, 0
    for i in range(load8(state, L.S_NTABLES)):
        table = tables + 8 * L.TABLE_WORDS * load8(state, L.S_COMPONENT + i)
        first, end = load8(table, L.T_HI), list_length(table, kind)
        store8(table, L.T_LO, first)
        store8(table, L.T_HI, end)
        found += end - first
        missing += load8(table, L.T_NDEL) - load8(table, L.T_NRED)
        held += load8(table, L.T_LIVE)
    store8(state, L.S_ROUND, load8(state, L.S_ROUND) + 1)
    store8(state, L.S_HELD, held)
    if kind == L.FROM_RED:
        if missing == 0:
            return 0
        # If few rows are missing, check each of them again instead of all derivations from the found rows. Rows of
        # earlier rounds existed when a missing row was last checked, so only those of the last round can matter.
        store8(state, L.S_RECHECK, 1 if missing < found else 0)
    return found


def runs_now(plan: int, tables: int, state: int) -> int:
    """Test whether a plan runs in this round: seeds in the first round and in a recheck, others while their driver has
    new rows."""
    seed = load8(plan, L.P_SEED)
    if load8(state, L.S_ROUND) == 0 or load8(state, L.S_RECHECK) == 1:
        return seed
    if seed == 1:
        return 0
    if load8(plan, L.P_SOURCE) == L.FROM_BUFFER:
        return 1
    table = tables + 8 * L.TABLE_WORDS * load8(plan, L.P_TABLE)
    return 1 if load8(table, L.T_LO) < load8(table, L.T_HI) else 0


def run(code: int, plans: int, tables: int, indexes: int, regs: int, cursors: int, state: int) -> int:
    """Run rounds of all plans to the fixpoint (L.DONE), or until the kernel must stop."""
    while True:
        number = load8(state, L.S_PLAN)
        while number < load8(state, L.S_NPLANS):
            plan = plans + 8 * L.PLAN_WORDS * number
            if load8(state, L.S_RUNNING) == 0:
                store8(plan, L.P_PROBED, load8(state, L.S_PROBED))
                store8(plan, L.P_MATCHED, load8(state, L.S_MATCHED))
                store8(plan, L.P_DERIVED, load8(state, L.S_DERIVED))
                store8(plan, L.P_CHANGED, load8(state, L.S_CHANGED))
                if runs_now(plan, tables, state) == 0:
                    number += 1
                    store8(state, L.S_PLAN, number)
                    continue
                store8(state, L.S_RUNNING, 1)
                store8(state, L.S_PC, load8(plan, L.P_CODE))
                store8(state, L.S_EMIT, load8(plan, L.P_EMIT))
                store8(state, L.S_HEAD, load8(plan, L.P_HEAD))
                if load8(plan, L.P_EXTERN) >= 0:
                    store8(state, L.S_DETAIL, load8(plan, L.P_EXTERN))
                    store8(state, L.S_RUNNING, 2)
                    return L.EXTERN
                begin_plan(plan, tables, state)
                if is_worth_sharing(plan, tables, state) == 1:
                    return L.SHARE
            if load8(state, L.S_RUNNING) == 2:
                store8(state, L.S_RUNNING, 1)
                begin_plan_on_buffer(plan, tables, state)
            result = execute(code, load8(state, L.S_PC), tables, indexes, regs, cursors, state)
            if result != L.DONE:
                return result
            number += 1
            store8(state, L.S_PLAN, number)
            store8(state, L.S_RUNNING, 0)
        if end_round(tables, state) == 0:
            return L.DONE
        store8(state, L.S_PLAN, 0)
        if load8(state, L.S_ROUND) >= load8(state, L.S_MAXROUNDS):
            return L.TOO_MANY_ROUNDS
        if load8(state, L.S_TRACE) == 1:
            return L.ROUND_ENDED
        if load8(state, L.S_HELD) > load8(state, L.S_DRIFT):
            return L.DRIFTED


ENTRIES = (run, execute)
