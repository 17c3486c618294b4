"""clingo: the same requests; any fact may go, those may come that could matter, and the models with the fewest changes
by inclusion are enumerated."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import clingo

from bench.contenders.realizations import WARMING
from bench.permissions import RULES, Fact, Row, Wish, base_facts, wishes
from bench.tasks import Answer, Task


def run(task: Task) -> Answer:
    facts = base_facts(task.options["facts"])
    answer = Answer(times={}, size=sum(map(len, facts.values())))
    found: list[list[str]] = []
    seen: dict[str, int] = {}
    for wish in wishes(facts, task.options["each"] + WARMING):
        seen[wish.kind] = seen.get(wish.kind, 0) + 1
        if seen[wish.kind] > WARMING:
            started = time.process_time()
            found.append(sorted(_minimal(facts, wish)))
            answer.times.setdefault(wish.kind, []).append(time.process_time() - started)
    answer.notes["found"] = json.dumps(found)
    return answer


def _minimal(facts: dict[str, list[Row]], wish: Wish) -> Iterator[str]:
    there = {(name, row) for name, rows in facts.items() for row in rows}
    free = [fact for fact in sorted(there) if fact[0] not in wish.frozen]
    new = [fact for fact in _candidates(facts, wish) if fact not in there and fact[0] not in wish.frozen]
    changeable = [*free, *new]
    lines = [RULES]
    lines += [f"{_text(fact)}." for fact in sorted(there) if fact[0] in wish.frozen]
    for number, fact in enumerate(changeable):
        lines.append(f"{{changed({number})}}. {_text(fact)} :- {'not ' * (fact in there)}changed({number}).")
    goal = _text(("access", wish.row))
    lines += [f":- {'' if wish.kind == 'take' else 'not '}{goal}.", "#heuristic changed(N). [1,false]"]
    control = clingo.Control(["--warn=none", "--heuristic=Domain", "--enum-mode=domRec", "0"], logger=lambda *_: None)
    control.add("base", [], "\n".join(lines))
    control.ground([("base", [])])
    with control.solve(yield_=True) as models:
        for model in models:
            numbers = [each.arguments[0].number for each in model.symbols(atoms=True) if each.name == "changed"]
            changed = [changeable[number] for number in numbers]
            yield "; ".join(sorted(f"{'-' if fact in there else '+'}{fact[0]}{fact[1]}" for fact in changed))


def _candidates(facts: dict[str, list[Row]], wish: Wish) -> list[Fact]:
    """Facts that could matter: of this person and this right."""
    teams = range(1 + max(team for team, _ in facts["part"]))
    return [("suspended", wish.row), *(("granted", (team, wish.row[1])) for team in teams)]


def _text(fact: Fact) -> str:
    return f"{fact[0]}({','.join(map(str, fact[1]))})"
