"""Eighty integrity views over the `modules` workload: each has the violations of a constraint and should stay empty.

They are told, not enforced (`on_violation=warn`): a system of this size has offences, and a new import adds some.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, permutations

from bench.modules import DEPENDENCE, LAYERS, LICENCES, OWNERS, SYSTEMS, TABLES, policy

HELPERS = {
    "mod_dep": DEPENDENCE,
    "known": ".decl known(p: symbol)\nknown(P) :- defined_in(P, _).\n",
    "measured": ".decl measured(p: symbol)\nmeasured(P) :- lines(P, _).\n",
    "titled": ".decl titled(p: symbol)\ntitled(P) :- named(P, _).\n",
    "declared": ".decl declared(m: symbol)\ndeclared(X) :- module(X, _).\n",
    "imported": ".decl imported(p: symbol)\nimported(P) :- import(_, P).\n",
}
"""Views that several constraints use."""


def constraints() -> dict[str, str]:
    """The rule of each constraint by its name."""
    return {head.partition("(")[0]: f"{head} :- {body}." for head, body in _all()}


def _all() -> Iterator[tuple[str, str]]:
    yield from _dependences()
    yield from _per_owner()
    yield from _single_imports()
    yield from _totals()


def _dependences() -> Iterator[tuple[str, str]]:
    """Over the recursive view: operating systems that do not mix, cycles, layers, licences."""
    for a, b in combinations(SYSTEMS, 2):
        parts = f'defined_in(P, Y), depend_on(P, "{a}"), defined_in(Q, Z), depend_on(Q, "{b}")'
        yield f"mixes_{a}_{b}(X)", f"mod_dep(X, Y), mod_dep(X, Z), {parts}"
    for layer in range(LAYERS):
        yield f"cycle_in_{layer}(X)", f"mod_dep(X, X), module(X, {layer})"
    for layer in range(LAYERS - 1):
        yield f"upwards_from_{layer}(X, Y)", f"mod_dep(X, Y), module(X, {layer}), module(Y, L), L > {layer}"
    for a, b in permutations(LICENCES, 2):
        yield f"{a}_needs_{b}(X, Y)", f'licence(X, "{a}"), mod_dep(X, Y), licence(Y, "{b}")'


def _per_owner() -> Iterator[tuple[str, str]]:
    """For the modules of one owner: tests, deprecated and private procedures, names that clash."""
    for o in OWNERS:
        mine = f'owner(X, "{o}")'
        yield f"tests_in_{o}(X, Y)", f"{mine}, mod_dep(X, Y), is_test(Y), !is_test(X)"
        yield f"deprecated_in_{o}(X, P)", f"{mine}, import(X, P), deprecated(P)"
        yield f"private_in_{o}(X, P)", f"{mine}, import(X, P), private(P), defined_in(P, Y), X != Y"
        yield f"clash_in_{o}(X, N)", f"{mine}, import(X, P), import(X, Q), named(P, N), named(Q, N), P != Q"
        yield f"hidden_in_{o}(X, N)", f"{mine}, import(X, P), named(P, N), defined_in(Q, X), named(Q, N)"


def _single_imports() -> Iterator[tuple[str, str]]:
    """Undeclared procedures and modules, imports of a module by itself, very large modules."""
    yield "undefined(X, P)", "import(X, P), !known(P)"
    yield "unmeasured(X, P)", "import(X, P), !measured(P)"
    yield "untitled(X, P)", "import(X, P), !titled(P)"
    yield "undeclared(X)", "import(X, _), !declared(X)"
    yield "idle(P)", "deprecated(P), !imported(P)"
    yield "itself(X, P)", "import(X, P), defined_in(P, X)"
    for layer in range(LAYERS):
        yield f"giant_in_{layer}(X, P)", f"module(X, {layer}), import(X, P), lines(P, N), N > 150"


def _totals() -> Iterator[tuple[str, str]]:
    """Aggregates."""
    yield "greedy(X, N)", "module(X, _), N = count : { import(X, _) }, N > 30"
    yield "heavy(X, N)", "module(X, _), N = count : { mod_dep(X, _) }, N > 130"
    yield "popular(P, N)", "defined_in(P, _), N = count : { import(_, P) }, N > 25"
    yield "long(X, N)", "module(X, _), N = sum L : { import(X, P), lines(P, L) }, N > 1500"


def program(names: Sequence[str], strategy: str) -> str:
    """The program of these constraints and the views they use, with one strategy for all; `auto` lets Upshot choose."""
    rules = constraints()
    chosen = [rules[name] for name in names]
    helpers = [name for name in HELPERS if any(f"{name}(" in rule for rule in chosen)]
    lines = [TABLES, *(HELPERS[name] for name in helpers), *(f".deny {rule}" for rule in chosen)]
    lines += [f".deny {name} on_violation=warn" for name in names]
    if strategy != "auto":
        lines += [f".view {name} strategy={strategy} {policy(strategy)}" for name in (*helpers, *names)]
    return "\n".join(lines) + "\n"
