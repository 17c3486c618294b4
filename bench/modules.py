"""The `modules` workload: a software system of modules and procedures, and what its maintainers want to be told.

One system has the size of the ConceptBase database of Staudt & Jarke (1996): 283 modules, 1,630 procedures. A larger
database holds several such systems side by side, without imports between them; the first one is the same in all, and
so is what a new import in it changes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow

from upshot.check.options import VIEW_VALUES

MODULES, PROCEDURES = 283, 1630
LAYERS, SUBSYSTEMS = 8, 12
SYSTEMS = ("unix", "vms", "dos", "os2", "mac")
LICENCES = ("free", "campus", "closed", "trial")
OWNERS = ("kernel", "storage", "query", "interface", "tools")
VERBS = ("get", "set", "new", "del", "find", "read", "write", "check", "show", "init")
NOUNS = ("object", "class", "rule", "query", "store", "link", "name", "table", "frame", "time", "answer", "module")

TABLES = """
.decl module(m: symbol, layer: number) key(m)
.decl licence(m: symbol, l: symbol)
.decl owner(m: symbol, o: symbol)
.decl is_test(m: symbol)
.decl defined_in(p: symbol, m: symbol)
.decl named(p: symbol, n: symbol)
.decl lines(p: symbol, n: number)
.decl depend_on(p: symbol, os: symbol)
.decl deprecated(p: symbol)
.decl private(p: symbol)
.decl import(m: symbol, p: symbol)
"""

DEPENDENCE = """
.decl mod_dep(x: symbol, y: symbol)
mod_dep(X, Y) :- import(X, P), defined_in(P, Y).
mod_dep(X, Y) :- mod_dep(X, Z), mod_dep(Z, Y).
"""

VIEWS = {
    "based_on": """
.decl based_on(y: symbol, p: symbol)
based_on(Y, P) :- import("{m}", P), defined_in(P, Y).
based_on(Y, P) :- mod_dep("{m}", Z), import(Z, P), defined_in(P, Y).
""",
    "with_prefix": """
.decl with_prefix(p: symbol)
with_prefix(P) :- import("{m}", P), named(P, N), substr(N, 0, 3) = "get".
""",
    "short_ones": """
.decl short_ones(p: symbol)
short_ones(P) :- import("{m}", P), lines(P, N), N < 10.
short_ones(P) :- mod_dep("{m}", Z), import(Z, P), lines(P, N), N < 10.
""",
    "of_name": """
.decl of_name(p: symbol)
of_name(P) :- import("{m}", P), named(P, "{name}").
of_name(P) :- mod_dep("{m}", Z), import(Z, P), named(P, "{name}").
""",
}
"""The four views of the paper, in its order, for one module M."""

PAPER = {"based_on": 25 / 4.5, "with_prefix": 0.3 / 0.25, "short_ones": 4.5 / 0.3, "of_name": 4.4 / 0.5}
"""How many times cheaper than recomputation the paper found its increments."""


def policy(strategy: str) -> str:
    """What is measured is the strategy, whatever else would be cheaper."""
    return "" if strategy == "recompute" else "policy=incremental"


@dataclass(slots=True)
class System:
    """One copy: rows by relation. `layer` and `home` are for whoever draws further links."""

    rows: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    layer: dict[str, int] = field(default_factory=dict)
    home: dict[str, str] = field(default_factory=dict)


def system(number: int) -> System:
    """The copy of that number: modules in layers and subsystems, procedures in modules, imports downwards, most of them
    inside a subsystem; a few lead sideways, so that there are cycles."""
    return _Drawing(number).drawn()


class _Drawing:
    def __init__(self, number: int) -> None:
        self._rng = np.random.default_rng(100 + number)
        self._names = [f"m{number}_{i:03}" for i in range(MODULES)]
        self._layer = np.sort(self._rng.integers(0, LAYERS, MODULES))
        self._part = self._rng.integers(0, SUBSYSTEMS, MODULES)
        self._made = System(layer=dict(zip(self._names, self._layer.tolist(), strict=True)))
        self._procedures: list[list[str]] = [[] for _ in range(MODULES)]

    def drawn(self) -> System:
        rng, rows, names = self._rng, self._made.rows, self._names
        rows["module"] = [(m, layer) for m, layer in self._made.layer.items()]
        rows["licence"] = [(m, LICENCES[0] if d < 0.97 else LICENCES[int(d * 1000) % 4]) for m, d in self._draws()]
        rows["owner"] = [(m, OWNERS[int(part) % len(OWNERS)]) for m, part in zip(names, self._part, strict=True)]
        rows["is_test"] = [(m,) for m, draw in self._draws() if draw < 0.04 and self._made.layer[m] > LAYERS // 2]
        for name in ("defined_in", "named", "lines", "depend_on", "deprecated", "private"):
            rows[name] = []
        for home in [*range(MODULES), *rng.integers(0, MODULES, PROCEDURES - MODULES).tolist()]:
            self._procedure(home)
        rows["import"] = sorted({pair for i in range(MODULES) for pair in self._imports(i)})
        return self._made

    def _draws(self) -> list[tuple[str, float]]:
        return list(zip(self._names, self._rng.random(MODULES).tolist(), strict=True))

    def _procedure(self, home: int) -> None:
        rng, rows, module = self._rng, self._made.rows, self._names[home]
        name = f"{VERBS[rng.integers(len(VERBS))]}_{NOUNS[rng.integers(len(NOUNS))]}_{rng.integers(8)}"
        procedure = f"{module}.{name}.{len(self._procedures[home])}"
        self._procedures[home].append(procedure)
        self._made.home[procedure] = module
        rows["defined_in"].append((procedure, module))
        rows["named"].append((procedure, name))
        rows["lines"].append((procedure, int(rng.lognormal(3.2, 0.9)) + 1))
        draw = rng.random()
        if draw < 0.03:
            rows["depend_on"].append((procedure, SYSTEMS[0] if draw < 0.028 else SYSTEMS[int(draw * 1e5) % 5]))
        if rng.random() < 0.01:
            rows["deprecated"].append((procedure,))
        elif rng.random() < 0.01:
            rows["private"].append((procedure,))

    def _imports(self, importer: int) -> list[tuple[str, str]]:
        """Most modules import a handful of procedures, a few import dozens."""
        rng = self._rng
        below = np.flatnonzero(self._layer < self._layer[importer])
        near = below[self._part[below] == self._part[importer]]
        found = []
        for draw in rng.random(min(40, int(rng.lognormal(1.9, 0.7)))):
            choice = near if draw < 0.75 and len(near) else below
            if draw > 0.995:
                choice = np.flatnonzero(self._part == self._part[importer])
            if len(choice):
                procedures = self._procedures[int(rng.choice(choice))]
                found.append((self._names[importer], procedures[int(rng.integers(len(procedures)))]))
        return found


class Modules:
    """`copies` systems side by side. `subject` is the module M of the views: the one with the largest base."""

    def __init__(self, copies: int = 1) -> None:
        self.copies = copies
        self.first = system(0)
        self._home = self.first.home
        self._imports: dict[str, set[str]] = {}
        for module, procedure in self.first.rows["import"]:
            self._imports.setdefault(module, set()).add(procedure)
        self.subject = max(sorted(self.first.layer), key=lambda m: len(self.base_of(m)))
        names = dict(self.first.rows["named"])
        found = sorted({names[p] for z in self.base_of(self.subject) for p in self._imports.get(z, ())})
        self.name = found[len(found) // 2]
        """The given name of the fourth view."""

    def tables(self) -> dict[str, list[tuple[Any, ...]]]:
        """Every base relation, of all copies."""
        whole: dict[str, list[tuple[Any, ...]]] = {name: [] for name in self.first.rows}
        for number in range(self.copies):
            for name, rows in system(number).rows.items():
                whole[name] += rows
        return whole

    def program(self, view: str, strategy: str) -> str:
        """The view, with what it rests on, all by one strategy."""
        rules = VIEWS[view].format(m=self.subject, name=self.name)
        views = [view]
        if "mod_dep(" in rules:
            rules, views = DEPENDENCE + rules, [view, "mod_dep"]
        told = [f".view {name} strategy={strategy} {policy(strategy)}" for name in views]
        if strategy != "recompute" and "events" in VIEW_VALUES and len(views) == 2:
            told.append(".view mod_dep events=none")
        return TABLES + rules + "\n".join(told) + "\n"

    def arrow(self) -> list[dict[str, Any]]:
        """Every base relation as an Arrow table, its columns named as declared; copy by copy."""
        names = {name: re.findall(r"(\w+):", columns) for name, columns in re.findall(r"\.decl (\w+)\((.*?)\)", TABLES)}
        return [
            {
                name: pyarrow.table([list(column) for column in zip(*rows, strict=True)], names=names[name])
                for name, rows in system(number).rows.items()
                if rows
            }
            for number in range(self.copies)
        ]

    def links(self, count: int, *, direct: bool = False) -> list[tuple[str, str]]:
        """Imports that are not there yet, in the first copy: every other one by a module that M is based on, the others
        by any; if `direct`, by M itself and by any."""
        rng = np.random.default_rng(5)
        modules, procedures = sorted(self.first.layer), sorted(self._home)
        based = [self.subject] if direct else sorted(self.base_of(self.subject) | {self.subject})
        found: dict[tuple[str, str], None] = {}
        while len(found) < count:
            among = based if len(found) % 2 == 0 else modules
            link = among[int(rng.integers(len(among)))], procedures[int(rng.integers(len(procedures)))]
            downwards = self.first.layer[self._home[link[1]]] < self.first.layer[link[0]]
            if downwards and link[1] not in self._imports.get(link[0], ()):
                found[link] = None
        return list(found)

    # ---- what must come out, by a way of its own -----------------------------------------------------------

    def base_of(self, module: str, extra: tuple[str, str] | None = None) -> set[str]:
        """The modules that it is based on, with one further import if there is one."""
        found: set[str] = set()
        waiting = [module]
        while waiting:
            for procedure in self.imports_of(waiting.pop(), extra):
                if self._home[procedure] not in found:
                    found.add(self._home[procedure])
                    waiting.append(self._home[procedure])
        return found

    def imports_of(self, module: str, extra: tuple[str, str] | None = None) -> set[str]:
        own = self._imports.get(module, set())
        return own | {extra[1]} if extra is not None and extra[0] == module else own

    def expected(self, view: str, extra: tuple[str, str] | None = None) -> set[tuple[str, ...]]:
        """The rows of one of the four views."""
        direct = self.imports_of(self.subject, extra)
        names, lines = dict(self.first.rows["named"]), dict(self.first.rows["lines"])
        if view == "with_prefix":
            return {(p,) for p in direct if names[p].startswith("get")}
        through = [self.imports_of(z, extra) for z in self.base_of(self.subject, extra)]
        every = direct.union(*through)
        if view == "based_on":
            return {(self._home[p], p) for p in every}
        if view == "short_ones":
            return {(p,) for p in every if lines[p] < 10}
        return {(p,) for p in every if names[p] == self.name}
