"""A recursive component: in the driver while it fits there, in parts that never meet, or by rounds of joins."""

from __future__ import annotations

from collections.abc import Mapping

from upshot.check.program import CheckedProgram
from upshot.core.errors import LimitError
from upshot.engine.limits import Limits
from upshot.engine.spark.recursion.in_driver import RecursionInDriver
from upshot.engine.spark.recursion.parts import MOST_SHARED, Decomposed
from upshot.engine.spark.storage.driver_copy import DriverMemory
from upshot.engine.spark.storage.pieces import Piece
from upshot.engine.spark.storage.requests import Jobs, Steps
from upshot.engine.spark.storage.table import FrameTable
from upshot.engine.work import ViewWork
from upshot.plan.choice import best_rows
from upshot.plan.pivot import decomposition
from upshot.plan.program_plan import ComponentPlan


class Recursion:
    """Kept as long as the component is, from commit to commit.

    `load` and `maintain` are steps of a propagation: the tables of what the component reads are settled, its own are
    settled by the caller from what comes back. Where nothing comes back, rounds of joins must do.
    """

    def __init__(
        self, component: ComponentPlan, normal: CheckedProgram, jobs: Jobs, limits: Limits, memory: DriverMemory, *,
        most_shared: int = MOST_SHARED, most_held: int | None = None,
    ) -> None:  # fmt: skip
        """`most_shared`: the most bytes of relations that travel with a task; `most_held`: the most bytes that a worker
        may take, by default what the session allows."""
        self.component = component
        self.driver = RecursionInDriver(component, normal.schemas, jobs, limits, memory)
        found = decomposition(component, normal)
        self._best = best_rows(normal, component.views)
        self._refusal = found.reason if found.program is None else ""
        self.parts: Decomposed | None = None
        if found.program is not None:
            self.parts = Decomposed(
                component, normal, found, jobs, limits, most_shared=most_shared, most_held=most_held
            )

    def load(self, tables: Mapping[str, FrameTable], work: ViewWork) -> dict[str, Piece] | None:
        """The rows of the views in the new state."""
        found = self.driver.load(tables, work) if self.driver.fits(tables) else None
        if found is None and self.parts is not None and self.parts.is_usable(tables):
            found = self.parts.load(tables, work)
        if found is None and self._best:
            raise self._too_large(tables)
        return found

    def maintain(
        self, tables: Mapping[str, FrameTable], work: ViewWork
    ) -> Steps[dict[str, tuple[Piece, Piece]] | None]:
        """The inserted and the deleted rows of each view, by the component's own strategy. What that took is added to
        the work."""
        found = self.driver.maintain(tables, work) if self.driver.fits(tables) else None
        if found is None and self.parts is not None and self.parts.is_usable(tables):
            found = yield from self.parts.maintain(tables, work)
        if found is None and self._best:
            raise self._too_large(tables)
        return found

    @property
    def keeps_best(self) -> bool:
        """Test whether a view keeps the best row of each group: there are no rounds of joins for that."""
        return bool(self._best)

    def _too_large(self, tables: Mapping[str, FrameTable]) -> LimitError:
        name = self._best[0]
        return LimitError(
            f"`{name}` keeps the best row of each group, which is done in the driver: {self.driver.refusal(tables)}",
            code="lattice-beyond-driver",
            help="let the driver hold more (`upshot.driver.memory`), or read fewer rows",
        )

    def describe(self, tables: Mapping[str, FrameTable]) -> str:
        """Describe the execution of the component, with the reason."""
        if self.driver.fits(tables):
            return "load and change in the driver, which holds what is read and the views: no job takes part"
        if self._best:
            return f"not in the driver, where alone best rows are kept: {self.driver.refusal(tables)}"
        lines = [f"not in the driver: {self.driver.refusal(tables)}"]
        if self.parts is None:
            return "\n".join(
                [*lines, f"not decomposed: {self._refusal}", "load and change by rounds of joins on Spark"]
            )
        return "\n".join([*lines, self.parts.describe(tables)])

    def release(self) -> None:
        """Let go of what the driver holds."""
        self.driver.release()
