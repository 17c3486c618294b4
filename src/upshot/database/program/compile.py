"""Compile a program: parse the text, merge it into the current program, check the whole, plan it.

    text or path ─► parse ─► merge ─► check ─► plan

Each step returns an immutable artifact, and `Compiled` keeps them all: `explain` shows them, and `difference` compares
two programs to find the views that a definition leaves unchanged.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upshot.active.rules import ActiveRules
from upshot.check import check, with_findings
from upshot.check.program import NOTHING_KNOWN
from upshot.core.errors import ProgramError, UsageError, system_reason
from upshot.core.schema import Role
from upshot.database.explain.dependencies import inputs
from upshot.database.program.activations import BindingRows, without_values
from upshot.database.program.definitions import merged, without
from upshot.database.program.stored_text import parse_stored, stored_text
from upshot.plan import compile_program
from upshot.sql.either import parse_either
from upshot.syntax import parse, print_item
from upshot.syntax.ast import Activation, Program, Rule, ViewDirective

if TYPE_CHECKING:
    from upshot.check.program import CheckedProgram, CheckedRule
    from upshot.core.schema import Schema
    from upshot.plan import ProgramPlan
    from upshot.revise.rules import Rules
    from upshot.syntax.ast import Item


@dataclass(frozen=True, slots=True)
class Compiled:
    """The program as written (all texts merged), checked and planned. `visible` are the relations that users may
    name."""

    program: Program
    checked: CheckedProgram
    plan: ProgramPlan
    visible: Mapping[str, Schema]
    rules: ActiveRules
    bindings: BindingRows | None = field(default=None, compare=False)
    """The values for which the text activates rules, to be staged with the program."""
    search_rules: dict[frozenset[str], Rules] = field(default_factory=dict, init=False, repr=False, compare=False)
    """The rules that searches for realizations read, by the requested relations."""

    def rule(self, name: str) -> CheckedRule | None:
        """The active rule with that name, active or not."""
        return next((rule for rule in self.checked.rules if rule.name == name), None)

    def members(self, name: str) -> tuple[str, ...]:
        """The rules of a group, or the rule with this name."""
        return tuple(rule.name for rule in self.checked.rules if name in rule.groups) or (name,)

    def schema(self, name: str) -> Schema:
        return self.checked.schemas[name]

    def is_base(self, name: str) -> bool:
        return self.checked.schemas[name].role is Role.BASE

    def home(self, name: str) -> str | None:
        """The base relation that stores rows inserted into `name`: itself, or the hidden part of a view with facts."""
        return name if self.is_base(name) else self.checked.input_part.get(name)


def empty_program() -> Compiled:
    return _compiled(Program(()))


def compile_text(text_or_path: str | os.PathLike[str], defined: Compiled, name: str | None = None) -> Compiled:
    """Merge a text into the program. `name` is the name of the text in messages."""
    text, source = read_program(text_or_path)
    try:
        program = parse_either(text, name or source, defined.visible, defined.checked.parts, defined.checked.functors)
    except ProgramError as error:
        if error.understood is None:
            raise
        raise with_findings(error, merged(defined.program, error.understood)) from None
    return _compiled(merged(defined.program, program), defined.plan, new=program.items)


def compile_stored(text: str, name: str) -> Compiled:
    """The program of a store, which was checked when it was committed."""
    return _compiled(merged(Program(()), parse_stored(text, name)), stored=True)


def without_activations(text: str) -> str:
    """The program text with rules inactive that are active for some values only."""
    program = parse_stored(text, "<stored program>")
    items = [
        replace(item, bindings=(), active=False) if isinstance(item, Activation) and item.bindings else item
        for item in program.items
    ]
    return stored_text(Program(tuple(items)))


def compile_items(items: tuple[Item, ...], defined: Compiled) -> Compiled:
    """Merge generated items into the program."""
    return _compiled(merged(defined.program, Program(items)), defined.plan, new=items)


def compile_with_rules(text: str, defined: Compiled) -> Compiled:
    """Add rules to views."""
    program = parse(text, "<rule>")
    _refuse_other_items(program)
    known = [item for item in defined.program.items if isinstance(item, Rule)]
    for item in program.items:
        if item in known:
            raise UsageError(
                f"the rule already exists: {print_item(item).strip()}", code="rule-exists", span=item.span,
                help="a repeated rule has no effect",
            )  # fmt: skip
    return _compiled(Program((*defined.program.items, *program.items), span=program.span), defined.plan)


def compile_without_rules(text: str, defined: Compiled) -> Compiled:
    """Remove rules from the program."""
    program = parse(text, "<rule>")
    _refuse_other_items(program)
    items = list(defined.program.items)
    for item in program.items:
        if item not in items:
            raise _no_such_rule(item, defined)
        items.remove(item)
    remaining = {head.relation for item in items if isinstance(item, Rule) for head in item.heads}
    bare = {head.relation for item in program.items if isinstance(item, Rule) for head in item.heads} - remaining
    # The options of a view are removed with its last rule: it becomes a base relation.
    items = [item for item in items if not (isinstance(item, ViewDirective) and item.relation in bare)]
    return _compiled(Program(tuple(items), span=defined.program.span), defined.plan)


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
    """Remove one relation from the program."""
    return _compiled(without(defined.program, relation), defined.plan)


def _compiled(
    program: Program, before: ProgramPlan | None = None, *, stored: bool = False, new: tuple[Item, ...] = ()
) -> Compiled:
    checked, bindings = check(program, NOTHING_KNOWN if before is None else before.source.known), None
    if any(rule.bindings for rule in checked.rules):
        bindings = BindingRows.of(checked.rules, new)
        program = replace(program, items=without_values(program.items))
    hidden = checked.hidden.union(checked.input_part.values(), checked.parts, checked.undecided)
    visible = {name: schema for name, schema in checked.schemas.items() if name not in hidden}
    plan = compile_program(checked, stored=stored, before=before)
    return Compiled(program, checked, plan, visible, ActiveRules.of(checked.rules), bindings)


# ---- reading ------------------------------------------------------------------------------------


def read_program(text_or_path: str | os.PathLike[str]) -> tuple[str, str]:
    """The text and its name in messages. A `Path` is read; so is a string that names a .dl or .sql file."""
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
    """Test whether a string is a path, existing or not: a program can end like one only in a comment."""
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


# ---- the difference of two programs ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of two compiled programs. `changed` has every view of the new plan, also generated ones, that is
    new, is defined differently, or depends on such a view; `kept` and `recomputed` name the views that the user
    wrote."""

    changed: frozenset[str]
    kept: tuple[str, ...]
    recomputed: tuple[str, ...]


def difference(old: Compiled, new: Compiled) -> Difference:
    """Compare two programs: views with the same rules over the same inputs, transitively, are kept."""
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
    """For each relation of the plan all that its rows depend on, in a comparable form."""
    normal, strategies, on_demand = compiled.plan.normal, compiled.plan.strategies, compiled.plan.on_demand.strategies
    clauses: dict[str, set[Any]] = {name: set() for name in normal.schemas}
    for clause in normal.clauses:
        clauses[clause.head.relation].add(clause)
    strategy: Callable[[str], object] = lambda name: strategies[name].strategy if name in strategies else None  # noqa: E731
    return {
        name: (schema.columns, schema.role is Role.BASE, schema.keys, clauses[name], strategy(name), name in on_demand)
        for name, schema in normal.schemas.items()
    }
