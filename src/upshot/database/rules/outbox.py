"""The outbox: tasks of rules after a commit, stored with the commit, run in order, retried after a failure."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from upshot.active.cascade import endless
from upshot.active.firing import arguments
from upshot.active.tasks import from_task
from upshot.core.errors import Error, RuleError, Veto
from upshot.database.queries.query import query
from upshot.database.rules.actions import failed_call
from upshot.database.rules.transaction_rules import find_cause

if TYPE_CHECKING:
    from upshot.active.tasks import Pending
    from upshot.core.rows import Rows
    from upshot.database.state import DatabaseState

log = logging.getLogger("upshot.rules")

Begin = Callable[..., AbstractContextManager[Any]]
"""Opens a transaction that completes a task: `begin(state, completed_task=pending)`."""


def run_tasks(state: DatabaseState, pending: Iterable[Pending], begin: Begin) -> None:
    """Run tasks, and the tasks that these cause. A failure stops no other task: it is logged and kept with the firing,
    and the task stays in the outbox. Each task may cause a bounded number of transactions; further ones are dropped,
    and an error is raised when everything else is done."""
    queue: deque[tuple[Pending, tuple[str, ...], int]] = deque(
        (each, (each.firing.rule,), first) for first, each in enumerate(pending)
    )
    made: Counter[int] = Counter()
    runaway: RuleError | None = None
    while queue:
        task, trace, first = queue.popleft()
        made[first] += not task.is_call
        if made[first] > state.max_firings and not task.is_call:
            complete_task(state, task)
            runaway = runaway or endless(trace, state.max_firings)
            continue
        if not _begin_task(state, task):
            continue
        if task.is_call:
            state.make_call(task.actions[0].target, partial(_try, state, task, _call))
        else:
            caused = _try(state, task, partial(_change, begin))
            queue.extend((each, (*trace, each.firing.rule), first) for each in caused)
    if runaway is not None:
        raise runaway


def _try(state: DatabaseState, task: Pending, run: Callable[[DatabaseState, Pending], list[Pending]]) -> list[Pending]:
    """Run a task that this thread has begun; the tasks that its own commit causes."""
    try:
        caused = run(state, task) if _is_pending(state, task) else []
    except Exception as error:  # noqa: BLE001 - whatever it is, the other tasks go on
        task.firing.error = error
        _log_failure(task, error)
        return []
    finally:
        task.under_way = False
    with state.lock:
        if not any(each.firing is task.firing for each in state.outbox):
            task.firing.error = None
    return caused


def _begin_task(state: DatabaseState, task: Pending) -> bool:
    """Reserve the task for this thread, unless it is completed or running, on another thread or further down on this
    one."""
    with state.lock:
        if task.under_way or not _is_pending(state, task):
            return False
        task.under_way = True
        return True


def _is_pending(state: DatabaseState, task: Pending) -> bool:
    """Test whether the task is still in the outbox: it may have been discarded."""
    with state.lock:
        return any(each is task for each in state.outbox)


def _call(state: DatabaseState, task: Pending) -> list[Pending]:
    (action,) = task.actions
    if action.target not in state.actions:
        raise RuleError(
            f"`{action.target}`, called by rule `{task.firing.rule}`, is not registered",
            code="unknown-action",
            help=f'it is called as soon as db.action("{action.target}", function) registers it',
        )
    try:
        firing = replace(task.firing, key=task.key, query=_querying(state))
        state.actions.call(firing, action, task.per)
    except Exception as error:
        if isinstance(error, Error) and not isinstance(error, Veto):
            raise
        raise failed_call(task.firing.rule, action, error, committed=True) from error
    complete_task(state, task)
    return []


def _change(begin: Begin, state: DatabaseState, task: Pending) -> list[Pending]:
    with begin(state, completed_task=task) as transaction:
        for action in task.actions:
            change = transaction.insert if action.kind == "insert" else transaction.delete
            change(action.target, arguments(task.firing.instances, action))
    complete_task(state, task)
    for warning in transaction.warnings:
        log.warning("rule `%s`, fired by version %s: %s", task.firing.rule, task.firing.version, warning.message)
    return list(transaction.tasks)


def _querying(state: DatabaseState) -> Callable[..., Rows]:
    """Queries for functions that are called after the commit."""

    def answer(text: object, /, **values: Any) -> Rows:
        return query(state, text, values)

    return answer


def _log_failure(task: Pending, error: Exception) -> None:
    """Log the failure, with a traceback if a user's function failed."""
    cause = error.__cause__ if isinstance(error, Error) else error
    rule, version = task.firing.rule, task.firing.version
    log.error("rule `%s`, fired by version %s, failed: %s", rule, version, error, exc_info=cause)


def complete_task(state: DatabaseState, task: Pending) -> None:
    """Remove the task from the outbox, if its own commit has not done so."""
    with state.lock:
        if not _is_pending(state, task):
            return
        state.outbox = [each for each in state.outbox if each is not task]
        if state.journal is not None:
            state.journal.store.remove_tasks([task.place])


def recovered_tasks(state: DatabaseState) -> list[Pending]:
    """The tasks that an earlier process left in the store."""
    found = [] if state.journal is None else [from_task(task) for task in state.journal.store.tasks()]
    for each in found:
        each.firing.find_cause = partial(find_cause, state, each.place[0])
    return found
