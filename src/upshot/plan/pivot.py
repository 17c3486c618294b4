"""The decomposition of a recursive component into parts that never meet, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from upshot.check.names.variables import fresh_name, walk
from upshot.check.printing import print_clause
from upshot.check.program import CheckedProgram, Clause
from upshot.core.schema import Role, Schema
from upshot.plan.choice import read_by
from upshot.plan.program_plan import ComponentPlan
from upshot.rewrite.demand.linearize import linearize
from upshot.rewrite.normalize.term_type import row_variables
from upshot.rewrite.shapes import atoms_of
from upshot.rewrite.stratified import stratified
from upshot.strategies.maintenance import maintenance
from upshot.syntax.ast import Atom, Call, Term, Variable
from upshot.values.functors import is_functor

_MOST_CHOICES = 64
"""At most this many choices of a column per view are tried; hand-written rules have fewer."""

Columns = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Decomposition:
    """`program` is what runs in a part: the recursive rules, a relation of `seeds` for each view, which takes the rows
    of its `exits` (the rules without recursion), and the relations read: those in `split` have the pivot, so a part
    gets its own rows of them; those in `shared` are needed whole by every part.

    `pivots` and `split` name, for each view and relation, the columns that hold the pivot, in corresponding order.
    Where there is no pivot there is no program, only the reason.
    """

    views: tuple[str, ...]
    reason: str
    pivots: Mapping[str, Columns] = field(default_factory=dict, hash=False)
    seeds: Mapping[str, str] = field(default_factory=dict, hash=False)
    exits: tuple[Clause, ...] = ()
    split: Mapping[str, Columns] = field(default_factory=dict, hash=False)
    shared: tuple[str, ...] = ()
    linearized: str = ""
    """The reason that a non-linear closure could be made linear; empty if none was."""
    gathered: str = ""
    """The view, in `program` only, that the rows of the exits were given because a linear rule reads them."""
    component: ComponentPlan | None = None
    """The component whose recursion the parts run: as it was, or made linear."""
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

    A *pivot* is a column of each view of the component, such that every recursive rule passes it on unchanged: the
    head's variable in that column stands in the pivot column of every literal of the component. Every row then has
    derivations from rows with its own pivot only, NULL being a value like any other, so the rows of each pivot are
    a fixpoint of their own. All columns that do are taken together: the finest parts. A non-linear closure is made
    linear first, see `linearize`.
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
            # A closure may keep a column even as it stands, a label say; linear it keeps the end of the path too.
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
    return not read_by(clause).isdisjoint(views)


def _own(clause: Clause, views: Sequence[str]) -> list[Atom]:
    """The literals of the component."""
    return [atom for _, atom, _ in atoms_of(clause) if atom.relation in views]


def _is_linear(views: Sequence[str], recursive: Sequence[Clause]) -> bool:
    return all(len(_own(clause, views)) == 1 for clause in recursive)


# ---- pivots -----------------------------------------------------------------------------------------------------


def _pivots(views: Sequence[str], recursive: Sequence[Clause], program: CheckedProgram) -> dict[str, Columns]:
    """For each view the columns that hold the pivot, none if there is no pivot."""
    choices: list[dict[str, int]] = []
    for column in range(program.schemas[views[0]].arity):
        for choice in _completed({views[0]: column}, views, recursive):
            if choice not in choices and len(choices) < _MOST_CHOICES:
                choices.append(choice)
    return {view: tuple(choice[view] for choice in choices) for view in views} if choices else {}


def _completed(choice: dict[str, int], views: Sequence[str], recursive: Sequence[Clause]) -> Iterator[dict[str, int]]:
    """Every way to choose a column for the other views that the recursive rules allow. The views of a component
    use each other, so the columns of all of them follow from that of one."""
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


# ---- what runs in a part ----------------------------------------------------------------------------------------


def _decomposed(
    component: ComponentPlan, program: CheckedProgram, pivots: Mapping[str, Columns], reason: str, *,
    linearized: str = "", exits: str = "",
) -> Decomposition:  # fmt: skip
    views = component.views
    recursive = [c for c in program.clauses if c.head.relation in views and _uses(c, views)]
    inside = [c for c in program.clauses if c.head.relation == exits]
    read = sorted({name for clause in (*recursive, *inside) for name in read_by(clause)} - {*views, exits})
    whole = {name for clause in inside for name in read_by(clause)}
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
    """The component with the rules that a linear program has for it."""
    clauses = tuple(clause for clause in program.clauses if clause.head.relation in component.views)
    made = maintenance(program, component.views)
    reads = frozenset(name for clause in clauses for name in read_by(clause)) - set(component.views)
    return replace(component, clauses=clauses, rules=made.rules, states=made.states, reads=reads)


def _split_on(name: str, pivots: Mapping[str, Columns], recursive: Sequence[Clause]) -> Columns | None:
    """The columns of a relation that hold the pivot wherever a recursive rule reads it, if there are such."""
    common: set[Columns] | None = None
    for clause in recursive:
        held = [clause.head.args[column] for column in pivots[clause.head.relation]]
        for _, atom, _ in atoms_of(clause):
            if atom.relation == name:
                found = set(product(*(_columns_of(atom, term) for term in held)))
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
    """The program of a part. Keys are left out: whole relations are checked elsewhere."""
    given = {name: Schema(name, program.schemas[name].columns) for name in read}
    given |= {seed: Schema(seed, program.schemas[view].columns) for view, seed in seeds.items()}
    made = [*seeds, exits] if exits else list(seeds)
    schemas = given | {name: Schema(name, program.schemas[name].columns, Role.VIEW) for name in made}
    first = []
    for view, seed in seeds.items():
        names = row_variables(schemas[view])
        row = Atom(view, tuple(map(Variable, names)))
        types = dict(zip(names, schemas[view].types, strict=True))
        first.append(Clause(row, (replace(row, relation=seed),), types))
    empty = CheckedProgram(schemas={}, clauses=(), facts={}, strata=())
    return stratified(empty, [*first, *clauses], schemas, by="decomposition")
