"""Decompose a recursive component into independent parts, or explain why that is impossible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from upshot.check.names.variables import fresh_name, walk
from upshot.check.printing import print_clause
from upshot.check.program import CheckedProgram, Clause
from upshot.core.schema import Role, Schema
from upshot.plan.program_plan import ComponentPlan
from upshot.rewrite.demand.linearize import linearize
from upshot.rewrite.shapes import atoms_of, relations_read, row_atom
from upshot.rewrite.stratified import stratified
from upshot.strategies.maintenance import maintenance
from upshot.syntax.ast import Atom, Call, Term, Variable
from upshot.values.functors import is_functor

_MOST_CHOICES = 64
"""The maximum number of choices of a column per view that are tried; hand-written rules have fewer."""

Columns = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Decomposition:
    """Each part runs `program`: the recursive rules, a relation of `seeds` for each view, with the rows of its `exits`
    (the rules without recursion), and the relations read. Relations in `split` have the pivot, so a part gets only its
    own rows of them; every part needs all rows of those in `shared`.

    `pivots` and `split` have the pivot columns of each view and relation, in corresponding order. Without a pivot there
    is no program, only the reason.
    """

    views: tuple[str, ...]
    reason: str
    pivots: Mapping[str, Columns] = field(default_factory=dict, hash=False)
    seeds: Mapping[str, str] = field(default_factory=dict, hash=False)
    exits: tuple[Clause, ...] = ()
    split: Mapping[str, Columns] = field(default_factory=dict, hash=False)
    shared: tuple[str, ...] = ()
    linearized: str = ""
    """Why a non-linear closure could be made linear; empty if none was."""
    gathered: str = ""
    """The view, in `program` only, of the rows of the exits, if a linear rule reads them."""
    component: ComponentPlan | None = None
    """The component whose recursion the parts run: the original one, or made linear."""
    program: CheckedProgram | None = None

    def __str__(self) -> str:
        if self.program is None:
            return f"not decomposed: {self.reason}"
        by = ", ".join(f"`{view}` on {self._named(view, self.pivots[view])}" for view in self.views)
        lines = [f"decomposed: {by}", f"  because {self.reason}"]
        if self.linearized:
            lines.append(f"  linearized: {self.linearized}")
        recursive = [c for c in self.program.clauses if c.head.relation in self.views and _uses(c, self.views)]
        lines += [f"  seeds   {print_clause(clause)}" for clause in self.exits]
        lines += [f"  rounds  {print_clause(clause)}" for clause in recursive]
        lines += [f"  split   `{name}` on {self._named(name, columns)}" for name, columns in self.split.items()]
        lines += [f"  shared  `{name}`" for name in self.shared]
        return "\n".join(lines)

    def _named(self, relation: str, columns: Columns) -> str:
        assert self.program is not None
        schema = self.program.schemas[relation]
        return f"column{'s' * (len(columns) > 1)} {', '.join(schema.columns[i].name for i in columns)}"


def decomposition(component: ComponentPlan, normal: CheckedProgram) -> Decomposition:
    """The decomposition of a component of the normal-form program.

    A *pivot* is a column of each view of the component that every recursive rule passes on unchanged: the head's
    variable in that column occurs in the pivot column of every literal of the component. Then every row has derivations
    only from rows with its own pivot, NULL being a value like any other, so the rows of each pivot are a fixpoint of
    their own. All pivots are combined, for the finest parts. A non-linear closure is made linear first, see
    `linearize`.
    """
    views = component.views
    if not component.recursive:
        return Decomposition(views, f"`{views[0]}` is not recursive")
    best = [view for view in views if normal.schemas[view].lattice is not None]
    if best:
        return Decomposition(views, f"`{best[0]}` keeps the best row of each group")
    if any(is_functor(each.function) for c in component.clauses for each in _calls(c)):
        return Decomposition(views, "its rules call functions of users")
    bare = [view for view in views if not normal.schemas[view].arity]
    if bare:
        return Decomposition(views, f"`{bare[0]}` has no columns")
    recursive = [clause for clause in component.clauses if _uses(clause, views)]
    linear = _is_linear(views, recursive)
    found = _pivots(views, recursive, normal)
    reason = "every recursive rule passes the pivot on unchanged"
    refusal = "only a component of one view can be made linear"
    if len(views) == 1 and not linear:
        made = linearize(normal, views[0])
        refusal = made.reason
        if made.program is not None:
            rounds = [c for c in made.program.clauses if c.head.relation in views and _uses(c, views)]
            finer = _pivots(views, rounds, made.program)
            # A non-linear closure may pass on a label; made linear, it passes on an end of the path too.
            if len(finer.get(views[0], ())) > len(found.get(views[0], ())):
                return _decomposed(component, made.program, finer, reason, linearized=made.reason, exits=made.exits)
    if found:
        return _decomposed(component, normal, found, reason)
    where = f"no column passes unchanged through {_rules(recursive)}"
    return Decomposition(views, where if linear else f"{where}, and {refusal}")


def _calls(clause: Clause) -> Iterator[Call]:
    return (each for literal in clause.body for each in walk(literal) if isinstance(each, Call))


def _rules(recursive: Sequence[Clause]) -> str:
    return "the recursive rule" if len(recursive) == 1 else "all recursive rules"


def _uses(clause: Clause, views: Sequence[str]) -> bool:
    return not relations_read(clause).isdisjoint(views)


def _own(clause: Clause, views: Sequence[str]) -> list[Atom]:
    """The literals of the component."""
    return [atom for _, atom, _ in atoms_of(clause) if atom.relation in views]


def _is_linear(views: Sequence[str], recursive: Sequence[Clause]) -> bool:
    return all(len(_own(clause, views)) == 1 for clause in recursive)


# ---- pivots -----------------------------------------------------------------------------------------------------


def _pivots(views: Sequence[str], recursive: Sequence[Clause], program: CheckedProgram) -> dict[str, Columns]:
    """The pivot columns of each view, empty if there is no pivot."""
    choices: list[dict[str, int]] = []
    for column in range(program.schemas[views[0]].arity):
        for choice in _completed({views[0]: column}, views, recursive):
            if choice not in choices and len(choices) < _MOST_CHOICES:
                choices.append(choice)
    return {view: tuple(choice[view] for choice in choices) for view in views} if choices else {}


def _completed(choice: dict[str, int], views: Sequence[str], recursive: Sequence[Clause]) -> Iterator[dict[str, int]]:
    """All choices of columns for the other views that the recursive rules allow. The views of a component use each
    other, so the columns of all follow from that of one."""
    for clause in recursive:
        if clause.head.relation not in choice:
            continue
        term = clause.head.args[choice[clause.head.relation]]
        for atom in _own(clause, views):
            columns = _columns_of(atom, term)
            if atom.relation not in choice:
                for column in columns:
                    yield from _completed({**choice, atom.relation: column}, views, recursive)
                return
            if choice[atom.relation] not in columns:
                return
    yield choice


def _columns_of(atom: Atom, term: Term) -> list[int]:
    if not isinstance(term, Variable):
        return []
    return [column for column, argument in enumerate(atom.args) if argument == term]


# ---- the program of a part --------------------------------------------------------------------------------------


def _decomposed(
    component: ComponentPlan, program: CheckedProgram, pivots: Mapping[str, Columns], reason: str, *,
    linearized: str = "", exits: str = "",
) -> Decomposition:  # fmt: skip
    views = component.views
    recursive = [c for c in program.clauses if c.head.relation in views and _uses(c, views)]
    inside = [c for c in program.clauses if c.head.relation == exits]
    read = sorted({name for clause in (*recursive, *inside) for name in relations_read(clause)} - {*views, exits})
    whole = {name for clause in inside for name in relations_read(clause)}
    split = {
        name: columns
        for name in read
        if name not in whole and (columns := _split_on(name, pivots, recursive)) is not None
    }
    seeds = _seeds(views, program)
    return Decomposition(
        views,
        reason,
        pivots,
        seeds,
        tuple(clause for clause in component.clauses if not _uses(clause, views)),
        split,
        tuple(name for name in read if name not in split),
        linearized,
        exits,
        _linear(component, program) if linearized else component,
        _program(program, seeds, [*inside, *recursive], read, exits),
    )


def _linear(component: ComponentPlan, program: CheckedProgram) -> ComponentPlan:
    """The component with the rules of a linear program."""
    clauses = tuple(clause for clause in program.clauses if clause.head.relation in component.views)
    made = maintenance(program, component.views)
    reads = frozenset(name for clause in clauses for name in relations_read(clause)) - set(component.views)
    return replace(component, clauses=clauses, rules=made.rules, states=made.states, reads=reads)


def _split_on(name: str, pivots: Mapping[str, Columns], recursive: Sequence[Clause]) -> Columns | None:
    """The columns of a relation that have the pivot wherever a recursive rule reads it, if there are any."""
    common: set[Columns] | None = None
    for clause in recursive:
        terms = [clause.head.args[column] for column in pivots[clause.head.relation]]
        for _, atom, _ in atoms_of(clause):
            if atom.relation == name:
                found = set(product(*(_columns_of(atom, term) for term in terms)))
                common = found if common is None else common & found
    return min(common) if common else None


def _seeds(views: Sequence[str], program: CheckedProgram) -> dict[str, str]:
    taken = set(program.schemas)
    names = {}
    for view in views:
        names[view] = fresh_name(f"{view}_seed", taken)
        taken.add(names[view])
    return names


def _program(
    program: CheckedProgram, seeds: Mapping[str, str], clauses: Sequence[Clause], read: Sequence[str], exits: str
) -> CheckedProgram:
    """The program of a part. Keys are left out: they are checked for whole relations elsewhere."""
    inputs = {name: Schema(name, program.schemas[name].columns) for name in read}
    inputs |= {seed: Schema(seed, program.schemas[view].columns) for view, seed in seeds.items()}
    views = [*seeds, exits] if exits else list(seeds)
    schemas = inputs | {name: Schema(name, program.schemas[name].columns, Role.VIEW) for name in views}
    first = []
    for view, seed in seeds.items():
        row, types = row_atom(schemas[view])
        first.append(Clause(row, (replace(row, relation=seed),), types))
    empty = CheckedProgram(schemas={}, clauses=(), facts={}, strata=())
    return stratified(empty, [*first, *clauses], schemas, by="decomposition")
