"""From text to plan: read the text, merge it into the program, check the whole, plan it.

    text or path ─► parse ─► merge with what is defined ─► check ─► plan

Each step hands on one immutable artefact, and `Compiled` keeps them all: the database shows them in `explain`, and
`difference` compares two of them to find what a new definition leaves as it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upshot.active.rules import ActiveRules
from upshot.check import check, with_findings
from upshot.check.program import CheckedProgram, CheckedRule
from upshot.core.errors import ProgramError, UsageError, system_reason
from upshot.core.schema import Role, Schema
from upshot.database.explain.dependencies import inputs
from upshot.database.program.definitions import merged, without
from upshot.plan import ProgramPlan, compile_program
from upshot.sql.either import parse_either
from upshot.syntax import parse, print_item
from upshot.syntax.ast import Item, Program, Rule


@dataclass(frozen=True, slots=True)
class Compiled:
    """The program in all its forms: as written (all texts merged), checked, planned. `visible` are the relations a user
    may name."""

    program: Program
    checked: CheckedProgram
    plan: ProgramPlan
    visible: Mapping[str, Schema]
    rules: ActiveRules

    def rule(self, name: str) -> CheckedRule | None:
        """The active rule of that name, awake or not."""
        return next((rule for rule in self.checked.rules if rule.name == name), None)

    def schema(self, name: str) -> Schema:
        return self.checked.schemas[name]

    def is_base(self, name: str) -> bool:
        return self.checked.schemas[name].role is Role.BASE

    def home(self, name: str) -> str | None:
        """The base relation where rows given for `name` are kept: itself, or the hidden part of a view with facts."""
        return name if self.is_base(name) else self.checked.input_part.get(name)


def nothing() -> Compiled:
    """The program of a new database."""
    return _compiled(Program(()))


def compile_text(text_or_path: str | os.PathLike[str], defined: Compiled, name: str | None = None) -> Compiled:
    """What is defined, with this text merged in. `name` is what messages call the text."""
    text, source = read_program(text_or_path)
    try:
        program = parse_either(text, name or source, defined.visible, defined.checked.parts)
    except ProgramError as error:
        if error.understood is None:
            raise
        raise with_findings(error, merged(defined.program, error.understood)) from None
    return _compiled(merged(defined.program, program))


def compile_stored(text: str, name: str) -> Compiled:
    """The program that a store gives back, and was accepted when it was committed."""
    return _compiled(merged(Program(()), parse_either(text, name)), stored=True)


def compile_items(items: tuple[Item, ...], defined: Compiled) -> Compiled:
    """What is defined, with items merged in that were made, not written."""
    return _compiled(merged(defined.program, Program(items)))


def compile_with_rules(text: str, defined: Compiled) -> Compiled:
    """What is defined, with these rules beside those that their views have already."""
    program = parse(text, "<rule>")
    _refuse_other_items(program)
    known = [item for item in defined.program.items if isinstance(item, Rule)]
    for item in program.items:
        if item in known:
            raise UsageError(
                f"the rule already exists: {print_item(item).strip()}", code="rule-exists", span=item.span,
                help="a repeated rule has no effect",
            )  # fmt: skip
    return _compiled(Program((*defined.program.items, *program.items), span=program.span))


def compile_without_rules(text: str, defined: Compiled) -> Compiled:
    """What is defined, less these rules."""
    program = parse(text, "<rule>")
    _refuse_other_items(program)
    items = list(defined.program.items)
    for item in program.items:
        if item not in items:
            raise _no_such_rule(item, defined)
        items.remove(item)
    return _compiled(Program(tuple(items), span=defined.program.span))


def _refuse_other_items(program: Program) -> None:
    for item in program.items:
        if not isinstance(item, Rule):
            raise UsageError(
                "only rules can be added or removed", code="not-a-rule", span=item.span,
                help="use `define` for declarations and settings",
            )  # fmt: skip
    if not program.items:
        raise UsageError("the text has no rule", code="not-a-rule", help="as in `p(X) :- q(X).`")


def _no_such_rule(item: Item, defined: Compiled) -> UsageError:
    assert isinstance(item, Rule)
    heads = {head.relation for head in item.heads}
    rules = [each for each in defined.program.items if isinstance(each, Rule)]
    shown = [print_item(each).strip() for each in rules if heads & {head.relation for head in each.heads}]
    hint = f"rules: {' '.join(shown)}" if shown else "the view has no rules"
    return UsageError(f"unknown rule: {print_item(item).strip()}", code="no-such-rule", span=item.span, help=hint)


def compile_without(relation: str, defined: Compiled) -> Compiled:
    """What is defined, less one relation."""
    return _compiled(without(defined.program, relation))


def _compiled(program: Program, *, stored: bool = False) -> Compiled:
    checked = check(program)
    hidden = checked.hidden.union(checked.input_part.values(), checked.parts)
    visible = {name: schema for name, schema in checked.schemas.items() if name not in hidden}
    return Compiled(program, checked, compile_program(checked, stored=stored), visible, ActiveRules.of(checked.rules))


# ---- reading ------------------------------------------------------------------------------------


def read_program(text_or_path: str | os.PathLike[str]) -> tuple[str, str]:
    """The text and its name in messages. A `Path` is read; so is a string that is the name of a .dl or .sql file."""
    if isinstance(text_or_path, str):
        path = Path(text_or_path) if _names_a_file(text_or_path) else None
        if path is None:
            return text_or_path, "<text>"
    elif isinstance(text_or_path, os.PathLike):
        path = Path(text_or_path)
    else:
        raise UsageError(
            f"a program must be text or a path, not {type(text_or_path).__name__}",
            code="wrong-argument",
            help="pass the program as a string, or a pathlib.Path to a .dl or .sql file",
        )
    return _text_of(path), str(path)


def _names_a_file(text: str) -> bool:
    """Whether a string is a path, there or not: no program ends this way except in a comment."""
    if "\n" in text or "\0" in text or not text.endswith((".dl", ".sql")):
        return False
    return os.path.isfile(text) or _COMMENT.search(text) is None


_COMMENT = re.compile(r"(?:^|\s)(?://|--)|/\*")


def _text_of(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except FileNotFoundError:
        near = ", ".join(f"`{other.name}`" for other in sorted(path.parent.glob("*.dl"))[:5])
        hint = f"the directory has {near}" if near else "check the path"
        raise UsageError(f"file `{path}` does not exist", code="no-such-file", help=hint) from None
    except OSError as error:
        message = f"cannot read `{path}`: {system_reason(error)}"
        raise UsageError(message, code="no-such-file", help="pass the path of a readable .dl file") from None
    except UnicodeDecodeError as error:
        message = f"`{path}` is not UTF-8 text (byte {error.start})"
        raise UsageError(message, code="not-utf8", help="save the file as UTF-8") from None


# ---- what a new definition leaves as it is ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class Difference:
    """Between two compiled programs. `changed` covers every view of the new plan, generated ones included, that is new,
    is defined otherwise, or rests on such a view; the lists for the user name only what the user wrote."""

    changed: frozenset[str]
    kept: tuple[str, ...]
    recomputed: tuple[str, ...]


def difference(old: Compiled, new: Compiled) -> Difference:
    """Which views have the same rules over the same inputs, all the way down, and which have not."""
    before, after = _definitions(old), _definitions(new)
    changed = {name for name, definition in after.items() if before.get(name) != definition}
    below = inputs(new.plan.normal)
    for component in new.plan.normal.strata:
        if any(name in changed or not changed.isdisjoint(below.get(name, ())) for name in component):
            changed.update(component)
    views = [name for name in new.visible if new.schema(name).role is not Role.BASE]
    return Difference(
        frozenset(name for name in changed if new.plan.normal.schemas[name].role is not Role.BASE),
        tuple(name for name in views if name not in changed),
        tuple(name for name in views if name in changed),
    )


def _definitions(compiled: Compiled) -> Mapping[str, Any]:
    """For each relation of the plan whatever its rows depend on, in a form that compares."""
    normal, strategies, on_demand = compiled.plan.normal, compiled.plan.strategies, compiled.plan.on_demand.strategies
    clauses: dict[str, set[Any]] = {name: set() for name in normal.schemas}
    for clause in normal.clauses:
        clauses[clause.head.relation].add(clause)
    strategy: Callable[[str], object] = lambda name: strategies[name].strategy if name in strategies else None  # noqa: E731
    return {
        name: (schema.columns, schema.role is Role.BASE, schema.keys, clauses[name], strategy(name), name in on_demand)
        for name, schema in normal.schemas.items()
    }
