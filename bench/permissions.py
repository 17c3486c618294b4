"""Who may do what, in an organization of a hundred thousand base facts, and requests to take a right or to give one."""

from __future__ import annotations

import random
from dataclasses import dataclass

Row = tuple[int, ...]
Fact = tuple[str, Row]

PROGRAM = """
.decl member(person: number, team: number)
.decl part(team: number, whole: number)
.decl granted(team: number, right: number)
.decl suspended(person: number, right: number)
.decl within(team: number, whole: number)
.decl holds(team: number, right: number)
.decl access(person: number, right: number)
within(T, W) :- part(T, W).
within(T, W) :- part(T, U), within(U, W).
holds(T, R) :- granted(T, R).
holds(T, R) :- within(T, W), granted(W, R).
access(P, R) :- member(P, T), holds(T, R), !suspended(P, R).
"""
RULES = """
within(T, W) :- part(T, W).
within(T, W) :- part(T, U), within(U, W).
holds(T, R) :- granted(T, R).
holds(T, R) :- within(T, W), granted(W, R).
access(P, R) :- member(P, T), holds(T, R), not suspended(P, R).
"""
"""The same for clingo."""

BRANCHES = 40
"""Parts of a team: the whole is three teams deep."""


@dataclass(frozen=True, slots=True)
class Wish:
    """`take`: the row of `access` is to go. `lift`: it is to come although it is suspended, with teams and grants as
    they are. `give`: it is to come by grants alone."""

    kind: str
    row: Row

    @property
    def frozen(self) -> tuple[str, ...]:
        return {"take": (), "lift": ("member", "part", "granted"), "give": ("member", "part", "suspended")}[self.kind]


def base_facts(size: int, seed: int = 1) -> dict[str, list[Row]]:
    """Sixty of a hundred facts say who is in which team, the others are parts, grants and suspensions."""
    random_ = random.Random(seed)
    teams, people, rights = size // 20, size * 3 // 10, size // 50
    return {
        "member": sorted({(person, random_.randrange(teams)) for person in range(people) for _ in range(2)}),
        "part": [(team, (team - 1) // BRANCHES) for team in range(1, teams)],
        "granted": sorted({(random_.randrange(teams), random_.randrange(rights)) for _ in range(size // 10)}),
        "suspended": sorted({(random_.randrange(people), random_.randrange(rights)) for _ in range(size // 4)}),
    }


def wishes(facts: dict[str, list[Row]], each: int, seed: int = 2) -> list[Wish]:
    """So many of each kind, about people taken at random."""
    random_ = random.Random(seed)
    rights: dict[int, set[int]] = {}
    for team, right in facts["granted"]:
        rights.setdefault(team, set()).add(right)
    whole = {team: other for team, other in facts["part"]}  # noqa: C416 - rows are tuples of any length

    def of_team(team: int | None) -> set[int]:
        return set() if team is None else rights.get(team, set()) | of_team(whole.get(team))

    held: dict[int, set[int]] = {}
    for person, team in facts["member"]:
        held.setdefault(person, set()).update(of_team(team))
    suspended = set(facts["suspended"])
    people, number = sorted(held), 1 + max(right for _, right in facts["granted"])
    takes = [(p, r) for p in random_.sample(people, each * 4) for r in sorted(held[p]) if (p, r) not in suspended]
    lifts = [(p, r) for p, r in facts["suspended"] if r in held.get(p, ())]
    gives = [(p, (p * 7919) % number) for p in random_.sample(people, each * 4)]
    gives = [(p, r) for p, r in gives if r not in held[p] and (p, r) not in suspended]
    chosen = {"take": random_.sample(takes, each), "lift": lifts[:each], "give": gives[:each]}
    return [Wish(kind, row) for kind, rows in chosen.items() for row in rows]
