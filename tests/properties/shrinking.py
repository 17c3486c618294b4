"""A failing case made small, and written as a script to keep."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.properties.cases import Base, Case, Change, Transaction, after
from tests.scripts.script_file import Step, show_change, write_script
from upshot.check import check
from upshot.check.program import CheckedProgram
from upshot.core.errors import Error, ProgramError
from upshot.engine.naive import evaluate
from upshot.syntax import parse


def shrink(case: Case, fails: Callable[[Case], bool], *, seconds: float = 30.0) -> Case:
    """A case that still fails and from which no single rule, literal, fact or change can be taken away.

    A smaller case whose program is refused does not count as failing. After `seconds` the smallest so far is returned.
    """
    end = time.monotonic() + seconds

    def still_fails(smaller: Case) -> bool:
        try:
            check(parse(smaller.text()))
        except ProgramError:
            return False
        return fails(smaller)

    smaller: Case | None = case
    while smaller is not None and time.monotonic() < end:
        case = smaller
        smaller = next((each for each in simplifications(case) if time.monotonic() < end and still_fails(each)), None)
    tidy = without_unused(case)
    return tidy if still_fails(tidy) else case


def simplifications(case: Case) -> Iterator[Case]:
    """The cases that lack one part of this one, the large parts first."""
    many = case.transactions
    for i in reversed(range(len(many))):
        yield replace(case, transactions=many[:i] + many[i + 1 :])
    for i in range(len(many)):
        folded = after(case.base, tuple(change for one in many[: i + 1] for change in one))
        yield replace(case, base=folded, transactions=many[i + 1 :])
    for i in reversed(range(len(case.rules))):
        yield replace(case, rules=case.rules[:i] + case.rules[i + 1 :])
    for name, rows in case.base.items():
        if rows:
            yield replace(case, base={**case.base, name: frozenset()})
    for i, changes in enumerate(many):
        for j in range(len(changes) if len(changes) > 1 else 0):
            fewer = changes[:j] + changes[j + 1 :]
            yield replace(case, transactions=(*many[:i], fewer, *many[i + 1 :]))
    for name, rows in case.base.items():
        for row in sorted(rows, key=repr):
            yield replace(case, base={**case.base, name: rows - {row}})
    for i, rule in enumerate(case.rules):
        for shorter in shorter_rules(rule):
            yield replace(case, rules=(*case.rules[:i], shorter, *case.rules[i + 1 :]))


def shorter_rules(rule: str) -> Iterator[str]:
    """The rule without one of its literals, and with one side only of each disjunction.

    >>> list(shorter_rules("p(X) :- q(X, Y), !r(Y)."))
    ['p(X) :- !r(Y).', 'p(X) :- q(X, Y).']
    """
    head, arrow, body = rule.removesuffix(".").partition(" :- ")
    literals = split(body, ",") if arrow else []
    for i, literal in enumerate(literals):
        rest = literals[:i] + literals[i + 1 :]
        yield f"{head} :- {', '.join(rest)}." if rest else f"{head}."
        if " ; " in literal:
            for side in split(literal.strip("()"), ";"):
                yield f"{head} :- {', '.join([*literals[:i], side, *literals[i + 1 :]])}."
        if inner := re.fullmatch(r"(.*\{ )(.*)( \})", literal):
            parts = split(inner[2], ",")
            for j in range(len(parts) if len(parts) > 1 else 0):
                fewer = ", ".join(parts[:j] + parts[j + 1 :])
                yield f"{head} :- {', '.join([*literals[:i], inner[1] + fewer + inner[3], *literals[i + 1 :]])}."


def split(text: str, separator: str) -> list[str]:
    """The parts between separators that stand outside brackets and texts."""
    parts, depth, start = [], 0, 0
    for token in re.finditer(r'"(?:[^"\\]|\\.)*"|[(){},;]', text):
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(token.group(), 0)
        if token.group() == separator and depth == 0:
            parts.append(text[start : token.start()].strip())
            start = token.end()
    return [*parts, text[start:].strip()]


def without_unused(case: Case) -> Case:
    """The case without declarations, facts and changes of relations that no rule mentions."""
    used = {name for rule in case.rules for name in re.findall(r"\b[bv]\d+\b", rule)}
    transactions = tuple(tuple(c for c in changes if c.relation in used) for changes in case.transactions)
    return replace(
        case,
        declarations=tuple(line for line in case.declarations if re.findall(r"\b[bv]\d+\b", line)[0] in used),
        base={name: rows for name, rows in case.base.items() if name in used},
        transactions=tuple(filter(None, transactions)),
    )


def as_script(case: Case) -> str:
    """The case as a script for `tests/scripts`, with what the oracle says must happen."""
    program, state = replace(check(parse(case.text())), facts={}), {name: frozenset() for name in case.base}
    first = tuple(Change("+", name, row) for name, rows in case.base.items() for row in sorted(rows, key=repr))
    steps = []
    for transaction in (first, *case.transactions):
        if transaction:
            command = " ".join(map(str, transaction))
            expected, state = _expected(program, state, transaction)
            steps.append(Step(command, expected))
    return write_script(f"// seed {case.seed}\n{case.text()}", steps)


def _expected(program: CheckedProgram, state: Base, transaction: Transaction) -> tuple[tuple[str, ...], Base]:
    old, changed = evaluate(program, state), after(state, transaction)
    try:
        new = evaluate(program, changed)
    except Error as error:
        return (f"error: {error.code}",), state
    lines = [show_change("+", view, row) for view in sorted(new) for row in sorted(new[view] - old[view], key=repr)]
    lines += [show_change("-", view, row) for view in sorted(new) for row in sorted(old[view] - new[view], key=repr)]
    return tuple(lines), changed
