"""Check the names in rules: relations, functions, aggregates, and misplaced wildcards and parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from upshot.check.findings import Findings
from upshot.check.names.variables import occurrences
from upshot.check.types.kinds import is_structure
from upshot.core.errors import DataError
from upshot.core.operations import UPDATED
from upshot.core.schema import Schema
from upshot.core.span import Span
from upshot.syntax import ast
from upshot.values.aggregates import AGGREGATES
from upshot.values.conditions import TESTS
from upshot.values.functions import FUNCTIONS
from upshot.values.functors import is_functor

MOST_NESTED_AGGREGATES = 16


@dataclass(frozen=True, slots=True)
class NameCheck:
    """`constraints` are relations that rules may not use, `rules` the names of active rules, which are no relations;
    `states` allows `old r(…)`, as in active rules."""

    schemas: Mapping[str, Schema]
    constraints: frozenset[str]
    findings: Findings
    parameters: bool = False
    states: bool = False
    rules: frozenset[str] = frozenset()

    def formula(self, formula: ast.Formula) -> bool:
        """Report every unknown or misplaced name; False if aggregates are nested too deeply."""
        return self._walk([(formula, "", 0)])

    def head(self, head: ast.Atom, *, declared: bool = True) -> bool:
        if declared:
            self.relation(head)
        return self._walk([(a, "the head", 0) for a in reversed(head.args)])

    def arguments(self, atom: ast.Atom, place: str) -> bool:
        """Check the arguments of an action."""
        return self._walk([(a, place, 0) for a in reversed(atom.args)])

    def relation(self, atom: ast.Atom) -> None:
        """Report an atom of an unknown relation, or with a wrong number of arguments."""
        schema = self.schemas.get(atom.relation)
        if schema is None:
            self.unknown(atom.relation, atom.span)
            return
        updated = atom.state == UPDATED
        expected = schema.arity * (2 if updated else 1)
        if expected != len(atom.args):
            self.findings.error(
                "wrong-arity",
                f"`{atom.relation}` has {_count(schema.arity, 'column')}, "
                f"but {_count(len(atom.args), 'argument')} {'is' if len(atom.args) == 1 else 'are'} given",
                atom.span,
                label=f"expected {_count(expected, 'argument')}" + ": the old row, then the new one" * updated,
                help=f"write `{_shape(schema, 'old_', 'new_') if updated else _shape(schema)}`",
                notes=((schema.span, "declared here"),) if schema.span is not None else (),
            )
        elif updated:
            self._keyed(schema, atom)

    def _keyed(self, schema: Schema, atom: ast.Atom) -> None:
        """Report an update of a relation without a key to identify the two rows of an update."""
        columns = [column.name for column in schema.columns]
        if schema.keys and len(schema.keys[0]) < schema.arity:
            return
        self.findings.error(
            "no-key",
            f"every column of `{schema.name}` is in its key, so no row is updated"
            if schema.keys
            else f"`{schema.name}` has no key that tells updates from deletions and insertions",
            atom.span,
            label="a row and its successor have the same key",
            help="use `on change`"
            if len(columns) == 1
            else f"declare {'a smaller key' if schema.keys else 'one'}, as in "
            f"`.decl {schema.name}({', '.join(columns)}) key({columns[0]})`, or use `on change`",
        )

    def unknown(self, name: str, span: Span | None) -> None:
        if name in self.constraints:
            self.findings.error(
                "constraint-in-body",
                f"constraint `{name}` cannot be used as a relation",
                span,
                label="this is a `.deny` constraint",
                help="define a view with the condition, and deny that view",
            )
            return
        if name in self.rules:
            self.findings.error(
                "unknown-relation",
                f"`{name}` is an active rule, not a relation",
                span,
                label="has no rows",
                help="read the relations of its condition, or let it insert into a relation",
            )
            return
        self.findings.unknown_relation(name, span, self.schemas)

    def _walk(self, stack: list[tuple[ast.Formula | ast.Term, str, int]]) -> bool:
        while stack:
            node, place, depth = stack.pop()
            match node:
                case ast.Variable():
                    continue
                case ast.Atom():
                    self._atom(node)
                    stack.extend((a, "an atom", depth) for a in reversed(node.args))
                case ast.Comparison():
                    stack += ((node.right, "a comparison", depth), (node.left, "a comparison", depth))
                case ast.Test():
                    self._test(node)
                    stack.extend((a, f"`{node.name}`", depth) for a in reversed(node.args))
                case ast.Not():
                    stack.append((node.body, "", depth))
                case ast.And() | ast.Or():
                    stack.extend((p, "", depth) for p in reversed(node.parts))
                case ast.Call() if is_structure(node):
                    inner = place if place == "the head" else "an atom"
                    stack.extend((a, inner, depth) for a in reversed(node.args))
                case ast.Call():
                    self._call(node)
                    stack.extend((a, "an expression", depth) for a in reversed(node.args))
                case ast.Aggregate():
                    if depth == MOST_NESTED_AGGREGATES:
                        self._too_deep(node)
                        return False
                    self._aggregate(node)
                    stack.append((node.body, "", depth + 1))
                    if node.target is not None:
                        stack.append((node.target, "the value of an aggregate", depth + 1))
                case ast.Wildcard() if place != "an atom":
                    self._misplaced_wildcard(node, place)
                case ast.Parameter() if not self.parameters:
                    self._misplaced_parameter(node)
                case _:
                    pass
        return True

    def _atom(self, atom: ast.Atom) -> None:
        self.relation(atom)
        if atom.state and not self.states:
            self.findings.error(
                "state-outside-rule",
                f"`{atom.state} {atom.relation}(…)` is allowed only in the condition of a `.rule`",
                atom.span,
                label=f"`{atom.state}` is not allowed here",
                help=f"write `{atom.relation}(…)`",
            )

    def _call(self, call: ast.Call) -> None:
        function = FUNCTIONS.get(call.function)
        if function is None and (is_functor(call.function) or call.function.startswith(ast.CAST)):
            self._unresolved(call.function)
            return  # `Kinds` looks at types
        if function is None:
            self._unknown("function", call, FUNCTIONS, "the language reference lists all functions")
            return
        signature = function.signature
        if len(call.args) < signature.least or (signature.most is not None and len(call.args) > signature.most):
            self._wrong_count(call.function.partition("(")[0], signature.arity_in_words(), len(call.args), call.span)

    def _unknown(
        self, kind: str, node: ast.Call | ast.Test | ast.Aggregate, known: Collection[str], otherwise: str
    ) -> None:
        name = node.name if isinstance(node, ast.Test) else node.function
        help = self.findings.suggest(name, known, otherwise)
        self.findings.error("unknown-function", f"unknown {kind} `{name}`", node.span, label="unknown", help=help)

    def _unresolved(self, name: str) -> None:
        """Count the error of `resolved` for a function that is not declared."""
        if is_functor(name) and "(" not in name:
            self.findings.repeat()

    def _test(self, test: ast.Test) -> None:
        known = TESTS.get(test.name)
        if known is None:
            self._unknown("test", test, TESTS, "the language reference lists all tests")
        elif len(known.arguments) != len(test.args):
            self._wrong_count(test.name, _count(len(known.arguments), "argument"), len(test.args), test.span)
        elif known.constant_argument is not None:
            self._constant_argument(known.constant_argument, test)

    def _constant_argument(self, checked: Callable[[str], object], test: ast.Test) -> None:
        """Check a constant first argument, such as a pattern."""
        first = test.args[0]
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            try:
                checked(first.value)
            except DataError as problem:
                self.findings.error(problem.code, problem.message, first.span, label="no pattern", help=problem.help)

    def _aggregate(self, aggregate: ast.Aggregate) -> None:
        known = AGGREGATES.get(aggregate.function)
        if known is None and is_functor(aggregate.function):
            self._unresolved(aggregate.function)
            return
        if known is None:
            self._unknown("aggregate", aggregate, AGGREGATES, f"use {', '.join(AGGREGATES)}")
        elif known.takes_value is not (aggregate.target is not None):
            expected = "needs a value" if known.takes_value else "takes no value"
            example = f"{aggregate.function} X : {{ … }}" if known.takes_value else "count : { … }"
            self.findings.error(
                "wrong-arity",
                f"`{aggregate.function}` {expected} before the colon",
                aggregate.span,
                label=expected,
                help=f"write `{example}`",
            )

    def _wrong_count(self, name: str, expected: str, have: int, span: Span | None) -> None:
        self.findings.error(
            "wrong-arity",
            f"`{name}` takes {expected}, but {_count(have, 'argument')} {'is' if have == 1 else 'are'} given",
            span,
            label=f"expected {expected}",
            help=f"give `{name}` {expected}",
        )

    def _too_deep(self, aggregate: ast.Aggregate) -> None:
        self.findings.error(
            "too-deep",
            f"aggregates nest more than {MOST_NESTED_AGGREGATES} levels deep",
            aggregate.span,
            label="one too many",
            help="define a relation for the inner aggregates",
        )

    def _misplaced_wildcard(self, wildcard: ast.Wildcard, place: str) -> None:
        self.findings.error(
            "misplaced-wildcard",
            f"`_` has no value, so {place} cannot use it",
            wildcard.span,
            label="no value here",
            help="use a variable that a positive literal of the body binds",
        )

    def _misplaced_parameter(self, parameter: ast.Parameter) -> None:
        self.findings.error(
            "parameter-outside-query",
            f"parameter `${parameter.name}` is allowed only in a query",
            parameter.span,
            label="never bound here",
            help="use a variable or a constant",
        )


def warn_of_singletons(nodes: Iterable[ast.Formula | ast.Term], findings: Findings) -> None:
    """Warn of variables that occur once in a rule, unless they are reported as unsafe: they are often misspelled."""
    every = [v for node in nodes for v in occurrences(node)]
    counts = Counter(v.name for v in every)
    for variable in every:
        if counts[variable.name] > 1 or variable.name.startswith("_"):
            continue
        # A variable without a place is not of the text.
        if variable.span is None or findings.has("unsafe-variable", variable.span):
            continue
        findings.warn(
            "singleton-variable",
            f"variable `{variable.name}` occurs only once",
            variable.span,
            label="used nowhere else",
            help=f"write `_` instead, or `_{variable.name}` to keep the name",
        )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _shape(schema: Schema, *prefixes: str) -> str:
    return f"{schema.name}({', '.join(prefix + c.name for prefix in prefixes or ('',) for c in schema.columns)})"
