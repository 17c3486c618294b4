"""Find changes of base relations that no literal of any rule matches, from the changed rows alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from upshot.check.program import Clause
from upshot.core.schema import Schema
from upshot.engine.local.components.phases import LocalStatistics, Phases
from upshot.engine.local.components.runner import Runner
from upshot.engine.local.storage.storage import Table
from upshot.engine.work import ViewWork
from upshot.plan.program_plan import ProgramPlan
from upshot.plan.rule_plans import MATCHED, guard_plans
from upshot.rewrite.changes.screening import relevant_rows


class Screening:
    """The guards of the literals over base relations, for one program."""

    def __init__(self, plan: ProgramPlan, tables: Mapping[str, Table], runner: Runner) -> None:
        self._plan, self._tables, self._runner = plan, tables, runner
        self._views = [view for layer in plan.normal.strata for view in layer]
        self._guards: dict[str, tuple[Clause, ...] | None] = {}
        self._phases: dict[str, tuple[Phases, Table]] = {}

    def is_relevant(self, relation: str) -> bool:
        """Test whether any changed row of the relation can affect a view."""
        if relation not in self._guards:
            self._guards[relation] = relevant_rows(self._plan.normal, relation, self._views)
        guards = self._guards[relation]
        if guards is None or not guards:
            return guards is None
        phases, matched = self._phases.get(relation) or self._prepared(relation)
        tables = {**self._tables, MATCHED: matched}
        schema = self._plan.normal.schemas[relation]
        schemas: Mapping[str, Schema] = {relation: schema, MATCHED: schema}
        phase = phases.phase("guards", lambda: guard_plans(guards, LocalStatistics(tables)), tables, schemas, ())
        try:
            self._runner.run(phase, (), None, {matched.number: matched}, ViewWork())
            return matched.size > 0
        finally:
            matched.rollback()

    def _prepared(self, relation: str) -> tuple[Phases, Table]:
        made = (
            Phases(self._runner.storage, self._runner.codec),
            self._runner.storage.create(self._plan.normal.schemas[relation].arity),
        )
        self._phases[relation] = made
        return made

    def texts(self) -> Iterator[int]:
        for phases, _ in self._phases.values():
            yield from phases.texts()

    def release(self) -> None:
        for phases, matched in self._phases.values():
            phases.release()
            self._runner.storage.drop(matched)
        self._phases.clear()
