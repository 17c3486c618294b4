"""Every plan of random programs derives on Spark what the oracle derives from the plan's clause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pyspark.sql import functions as F

from tests.properties.cases import Case, after
from tests.properties.random_programs import Features, random_case
from tests.spark.frames import Asked, Row, comparable, frame_of, rows_of
from upshot.check import check
from upshot.check.program import CheckedProgram, Clause
from upshot.engine.naive import derive, evaluate
from upshot.engine.naive_values import canonical
from upshot.engine.spark.frames.rule_frames import heads, hubs_split
from upshot.plan.program_plan import ComponentPlan, compile_program
from upshot.plan.rule_plan import Action, Change, RulePlan, State
from upshot.plan.rule_plans import load_plan, maintenance_plans
from upshot.rewrite.shapes import aggregate_of
from upshot.spark.session import private_session
from upshot.syntax import parse

pytestmark = pytest.mark.slow

Relations = Mapping[str, set[Row]]


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    return private_session(spark)


class Sizes:
    """Statistics of rows at hand."""

    def __init__(self, relations: Relations) -> None:
        self._relations = relations

    def size(self, relation: str) -> int:
        return len(self._relations[relation])

    def keys(self, relation: str, columns: tuple[int, ...]) -> int | None:
        return len({tuple(row[c] for c in columns) for row in self._relations[relation]})


@dataclass(frozen=True, slots=True)
class World:
    """All relations of a normal-form program before and after a transaction."""

    program: CheckedProgram
    components: tuple[ComponentPlan, ...]
    old: Relations
    new: Relations

    @classmethod
    def of(cls, case: Case) -> World:
        plan = compile_program(check(parse(case.text())))
        states = [_filled(plan.normal, base) for base in (case.base, after(case.base, case.transactions[0]))]
        return cls(plan.normal, plan.components, *states)

    def rows(self, relation: str, state: str) -> set[Row]:
        old, new = self.old[relation], self.new[relation]
        match state:
            case "old":
                return old
            case "new":
                return new
            case "del" | "minus":
                return old - new
            case _:
                return new - old


def _filled(program: CheckedProgram, base: Mapping[str, Any]) -> Relations:
    given = {name: set(rows) for name, rows in base.items()}
    filled: dict[str, set[Row]] = {name: set() for name in program.schemas}
    for name, rows in [*given.items(), *program.facts.items()]:
        filled[program.input_part.get(name, name)] |= {tuple(map(canonical, row)) for row in rows}
    return {**filled, **evaluate(program, given)}


class Frames:
    """The relations of a world as frames, each made once."""

    def __init__(self, session: Any, world: World) -> None:
        self._session, self._world = session, world
        self._made: dict[tuple[str, str], Any] = {}

    def _frame(self, relation: str, state: str) -> Any:
        key = relation, state
        if key not in self._made:
            types = self._world.program.schemas[relation].types
            self._made[key] = frame_of(self._session, self._world.rows(relation, state), types)
        return self._made[key]

    def read(self, relation: str, state: State) -> Any:
        return self._frame(relation, state.value)

    def drive(self, relation: str, change: Change) -> Any:
        return self._frame(relation, "del" if change is Change.DELETED else "ins")

    def heads(self, plan: RulePlan, *, small: bool) -> Asked:
        schemas = self._world.program.schemas
        frame = heads(plan, self.read, self.drive, session=self._session, schemas=schemas, small=small)
        return frame, schemas[plan.head].types


def expected_of(rule: Any, plan: RulePlan, component: ComponentPlan, world: World) -> Counter[Row]:
    """What the oracle derives from the generated rule; a deleted head is back if its rule derives it still."""
    relations = {name: world.rows(s.relation, s.state) for name, s in component.states.items() if s.state in STORED}
    clause: Clause = rule.clause
    assert plan.driver is not None
    if plan.driver.of_head:
        gone = relations[clause.body[0].relation]
        derivable = set(derive(replace(clause, body=clause.body[1:]), relations))
        return Counter(map(comparable, gone & derivable))
    if plan.driver.of_negation:
        driver = clause.body[rule.driver].relation
        relations[driver] = {row for row in relations[driver] if None not in row}
    return Counter(map(comparable, derive(clause, relations)))


STORED = {"old", "new", "del", "minus", "ins", "plus"}


def plans_of(world: World) -> Iterator[tuple[RulePlan, Counter[Row]]]:
    statistics = Sizes(world.new)
    for component in world.components:
        for clause in component.clauses:
            if aggregate_of(clause) is None:
                plan = load_plan(clause, Action.GAIN, statistics)
                yield plan, Counter(map(comparable, derive(clause, world.new)))
        for rule in component.rules:
            if rule.driver is None or rule.stage.value in ("state", "net"):
                continue
            plan = maintenance_plans(rule, component.states, component.views, statistics)[0]
            yield plan, expected_of(rule, plan, component, world)


FEATURES = Features(
    exotic=0.45,
    strings=0.3,
    nullable=0.35,
    negation=0.5,
    division=0.5,
    aggregates=0.15,
    recursion=0.35,
    views=5,
    rows=14,
)


def differences(found: Counter[Row], plan: RulePlan, expected: Counter[Row]) -> str | None:
    if plan.action not in (Action.GAIN, Action.LOSE):
        found, expected = Counter(set(found)), Counter(set(expected))
    if found == expected:
        return None
    return f"{plan}\n  missing {dict(expected - found)}\n  too much {dict(found - expected)}"


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.deep)])
def test_plans_of_random_programs_derive_what_the_oracle_derives(session: Any, seed: int) -> None:
    asked: dict[str, Asked] = {}
    plans: dict[str, tuple[RulePlan, Counter[Row]]] = {}
    for number in range(seed * 1000, seed * 1000 + 5):
        world = World.of(random_case(number, FEATURES))
        frames = Frames(session, world)
        for plan, expected in plans_of(world):
            name = f"{number}.{len(asked)}"
            asked[name] = frames.heads(plan, small=len(asked) % 2 == 0)
            plans[name] = plan, expected
    found = rows_of(asked)
    wrong = [d for name, (plan, expected) in plans.items() if (d := differences(found[name], plan, expected))]
    assert not wrong, "\n\n".join(wrong)


def test_a_hub_of_half_the_rows_is_shared_between_tasks(session: Any, capsys: pytest.CaptureFixture[str]) -> None:
    program = check(
        parse(
            ".decl l(k: number, x: number)\n.decl r(k: number, y: number)\n.decl h(x: number, y: number)\n"
            "h(X, Y) :- l(K, X), r(K, Y)."
        )
    )
    many, keys = 60_000, 2_000
    hub = F.when(F.col("id") % 2 == 0, F.lit(7)).otherwise(F.col("id") % keys)
    frames = {
        "l": session.range(0, many, 1, 4).select(hub.cast("long").alias("c0"), F.col("id").alias("c1")),
        "r": session.range(keys).select(F.col("id").alias("c0"), (F.col("id") * 3).alias("c1")),
    }
    (clause,) = program.clauses
    plan = load_plan(clause, Action.INSERT, Sizes({"l": {(i, i) for i in range(9)}, "r": {(1, 1)}}))
    joined = heads(plan, lambda name, _: frames[name], no_drive, session=session, schemas=program.schemas)
    folded = joined.agg(F.count("*").alias("n"), F.sum("c0").alias("x"), F.sum("c1").alias("y"))
    # Only then is it a join of two shuffled sides, as large ones are.
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    session.conf.set("spark.sql.shuffle.partitions", "8")
    try:
        with hubs_split(session, beyond=20_000):
            (row,) = folded.collect()
        folded.explain()
    finally:
        session.conf.unset("spark.sql.autoBroadcastJoinThreshold")
        session.conf.set("spark.sql.shuffle.partitions", "2")
    assert "skew=true" in capsys.readouterr().out
    pairs = [(i, 3 * (7 if i % 2 == 0 else i % keys)) for i in range(many)]
    assert (row.n, row.x, row.y) == (many, sum(x for x, _ in pairs), sum(y for _, y in pairs))
    assert session.conf.get("spark.sql.adaptive.enabled") == "false"


def no_drive(relation: str, change: Change) -> Any:
    raise AssertionError(f"nothing drives {relation} by {change}")
