"""The minimal realizations of a request as clingo finds them: any base fact that is not frozen may change, and of the
models in which the request, the keys and the constraints hold those are kept whose changes contain no other's. Nothing
of the product is used but its parser and its checker."""

from __future__ import annotations

from collections.abc import Collection

import clingo

from tests.properties.clingo_oracle import evaluate, translate
from tests.revise.brute_force import Update, checked
from tests.revise.random_requests import Case, Fact


def minimal_realizations(case: Case, *, has_key: bool = False, frozen: Collection[str] = ()) -> set[Update]:
    """Those that change nothing `frozen` and, if `e` has its first column as a key, leave no two rows with one."""
    program = checked(case.text)
    lines = [translate(program)]
    for number, (name, row) in enumerate(case.atoms):
        there = (name, row) in case.facts
        lines.append(f"{_fact((name, row))} :- {'not ' if there else ''}changed({number}).")
        if name not in frozen and f"{'-' if there else '+'}{name}" not in frozen:
            lines.append(f"{{ changed({number}) }}.")
    lines += [":- r_e(K,V), r_e(K,W), V < W."] if has_key else []
    lines += [f":- not {_fact(fact)}." for fact in case.insert] + [f":- {_fact(fact)}." for fact in case.delete]
    base: dict[str, set[tuple[int, ...]]] = {}
    for name, row in case.facts:
        base.setdefault(name, set()).add(row)
    before = evaluate(program, base)
    for constraint in program.constraints:
        kept = "".join(f", {_row_variables(row)}" for row in before[constraint])
        names = ",".join(f"V{i}" for i in range(program.schemas[constraint].arity))
        atom = f"r_{constraint}({names})" if names else f"r_{constraint}"
        lines.append(f":- {atom}{kept}.")
    # Models whose changes contain no other's: `changed` is false wherever it can be, in record order.
    lines.append("#heuristic changed(N). [1,false]")
    control = clingo.Control(["--warn=none", "--heuristic=Domain", "--enum-mode=domRec", "0"], logger=lambda *_: None)
    control.add("base", [], "\n".join(lines))
    control.ground([("base", [])])
    atoms, found = case.atoms, set()
    with control.solve(yield_=True) as models:
        for model in models:
            changed = {atoms[each.arguments[0].number] for each in model.symbols(atoms=True) if each.name == "changed"}
            found.add((frozenset(changed - case.facts), frozenset(changed & case.facts)))
    return found


def _fact(fact: Fact) -> str:
    name, row = fact
    return f"r_{name}({','.join(map(str, row))})" if row else f"r_{name}"


def _row_variables(row: tuple[int, ...]) -> str:
    """That the witness is another than this one, which was there before."""
    return f"({','.join(f'V{i}' for i in range(len(row)))},) != ({','.join(map(str, row))},)"
