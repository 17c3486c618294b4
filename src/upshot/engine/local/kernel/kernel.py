"""The kernel: the machine that runs a component's rule plans to their fixpoint.

Written in the part of Python that Numba compiles, on 64-bit integers and addresses only; it also runs as it
stands, for inputs too small to pay for loading Numba. It can stop half-way (to grow a table, to let Python compute
a functor, when
its budget is spent) and goes on from its state words when called again.
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
    """Run one plan from `pc` until its driver is exhausted (L.DONE) or something must be done first."""
    fresh = 1
    budget = load8(state, L.S_BUDGET)
    steps = 0
    # Heads that found no room are dealt with first; others wait on, as if the kernel had not stopped in between.
    if load8(state, L.S_STUCK) == 1 and flush(tables, indexes, state) != L.DONE:
        return L.GROW
    store8(state, L.S_RESULT, L.DONE)
    while pc != 0:
        if pc < 0:
            pc, fresh = -pc, 0
        op = load8(code, pc)
        steps += 1
        if steps > budget and fresh == 0 and (op == L.I_PROBE or op == L.I_SCAN):
            # A join far inside can take for ever while the driver stands still.
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
    """Set the range of driving rows: a whole list or table, or the rows new since the last round."""
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
    """Test whether several workers should run the plan, each on a part of its driving rows."""
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
    """Make what this round found the driving rows of the next; the answer is how many there are."""
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
        # Few rows are still missing: look at each of them again rather than at all that the found ones derive.
        # Rows found in earlier rounds were there when a missing row was last looked at, so only the last
        # round's can help it.
        store8(state, L.S_RECHECK, 1 if missing < found else 0)
    return found


def runs_now(plan: int, tables: int, state: int) -> int:
    """Seeds run in the first round, the others while their driver has new rows; in a recheck it is the other way
    round."""
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
    """Rounds of all plans until nothing new is found; L.DONE, or what must be done before going on."""
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


INNER = (execute, list_length, begin_plan, begin_plan_on_buffer, is_worth_sharing, end_round, runs_now)
ENTRIES = (run, execute)
