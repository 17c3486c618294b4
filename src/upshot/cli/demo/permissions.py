"""The permissions demo: who can read what, why, and what to revoke."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from upshot.cli.demo.story import DeletionRequest, Facts, Story, StoryTransaction, program_text

SUMMARY = "who can read what, why, and what to revoke (recursion, negation, a constraint, view updating)"

_DEPARTMENTS = ("sales", "support", "product", "engineering", "finance", "people", "legal", "operations")
_GROUPS = ("north", "south", "east", "west", "core", "labs", "field", "desk")
_FIRST = "ada ben cleo dan eva finn gita hugo ines jon kira leo mia noah olga paul rosa sam tess uma vic wen yara zoe"
_LAST = (
    "adler berg costa diaz evans frank garcia hahn ito jones kim lopez "
    "moreau nilsen okoro patel reyes sato turner vogel"
)
_TOPICS = ("plans", "reports", "contracts", "budgets", "designs", "tickets", "reviews", "archive")

_CONTRACTOR = "kim.external"
_SECRET = "finance/budgets/salaries"


@dataclass(frozen=True, slots=True)
class _Company:
    members: list[tuple[str, str]]
    parts: list[tuple[str, str]]
    inside: list[tuple[str, str]]
    grants: list[tuple[str, str]]


def permissions(people: int = 3000, documents: int = 15) -> Story:
    """A company with this many people, and this many documents in each folder."""
    company = _company(people, documents)
    facts: Facts = {
        "member": company.members,
        "part_of": company.parts,
        "inside": company.inside,
        "granted": company.grants,
        "suspended": [],
        "external": [(_CONTRACTOR,)],
        "secret": [(_SECRET,)],
    }
    return Story(
        name="permissions",
        summary=SUMMARY,
        opening=(
            f"{people:,} people in {1 + len(company.parts)} teams, {len(company.inside):,} documents and folders, "
            f"{len(company.grants)} grants. Who can read what, and what must be revoked?"
        ),
        program=program_text("permissions"),
        facts=facts,
        steps=tuple(_steps(company)),
        shows=("leak", "readers", "access"),
    )


def _company(people: int, documents: int) -> _Company:
    """The same company each time: departments with groups, a folder a department, a grant a group."""
    random = Random(7)
    groups = [f"{department}-{group}" for department in _DEPARTMENTS for group in _GROUPS]
    parts = [(department, "company") for department in _DEPARTMENTS]
    parts += [(group, group.partition("-")[0]) for group in groups]
    inside = [(f"{department}/{topic}", department) for department in _DEPARTMENTS for topic in _TOPICS]
    for folder, _ in list(inside):
        inside += [(f"{folder}/{number:03d}", folder) for number in range(documents)]
    inside.append((_SECRET, "finance/budgets"))
    grants = [("company", "people/plans"), ("finance", "finance"), ("legal", "finance/contracts")]
    grants += [(group, f"{group.partition('-')[0]}/{random.choice(_TOPICS)}") for group in groups]
    names = [f"{first}.{last}" for first in _FIRST.split() for last in _LAST.split()]
    members = [(f"{names[n % len(names)]}{n // len(names) or ''}", random.choice(groups)) for n in range(people)]
    return _Company(members, parts, inside, sorted(set(grants)))


def _steps(company: _Company) -> Iterator[StoryTransaction]:
    leak = ("access", (_CONTRACTOR, _SECRET))
    yield StoryTransaction(
        "A contractor joins",
        f"{_CONTRACTOR} joins finance-desk for a week. Finance can read everything of finance, and one "
        "document there is secret. The constraint `leak` only warns, so the transaction is committed.",
        insert={"member": [(_CONTRACTOR, "finance-desk")]},
        why=leak,
    )
    yield StoryTransaction(
        "What to revoke",
        "The contractor must not read the secret document. Upshot finds the smallest changes that achieve this, those "
        "that take the fewest other rights first, and commits the first one.",
        revoke=DeletionRequest(*leak, frozen=("suspended", "inside")),
    )
    twice = _member_of(company, "legal")
    yield StoryTransaction(
        "A second way in",
        f"{twice}, of legal, also joins finance-core. What legal may read of finance is now open to {twice} twice.",
        insert={"member": [(twice, "finance-core")]},
    )
    yield StoryTransaction(
        "One of two ways closed",
        "Legal loses its grant on finance/contracts. Who is in finance too keeps the access: only rows without another "
        "derivation are deleted.",
        delete={"granted": [("legal", "finance/contracts")]},
    )
    yield StoryTransaction(
        "A team moves",
        "support-labs becomes a part of finance. One row of `part_of` is replaced, and its people can read "
        "what finance can.",
        delete={"part_of": [("support-labs", "support")]},
        insert={"part_of": [("support-labs", "finance")]},
    )
    yield StoryTransaction(
        "A folder moves",
        "The designs of product move into the plans of people, which the whole company can read.",
        delete={"inside": [("product/designs", "product")]},
        insert={"inside": [("product/designs", "people/plans")]},
    )
    yield _nightly(company)


def _member_of(company: _Company, department: str) -> str:
    return next(person for person, team in company.members if team.startswith(f"{department}-"))


def _nightly(company: _Company) -> StoryTransaction:
    random = Random(3)
    teams: dict[str, str] = defaultdict(str, company.members)
    moved = random.sample([row for row in company.members if not row[1].startswith(("legal", "finance"))], 50)
    groups = sorted(set(teams.values()))
    return StoryTransaction(
        "The nightly sync arrives",
        f"{len(moved)} people change their team: {2 * len(moved)} changes, one transaction.",
        delete={"member": moved},
        insert={"member": [(person, random.choice([g for g in groups if g != team])) for person, team in moved]},
    )
