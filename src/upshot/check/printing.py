"""Print checked programs as text that can be parsed and checked again."""

from __future__ import annotations

from collections.abc import Iterator

from upshot.check.program import CONSTRAINT_OPTIONS, EVERY, CheckedProgram, CheckedRule, Clause, ViewOptions
from upshot.core.schema import Role, Schema
from upshot.core.types import Kind, Type
from upshot.syntax import ast
from upshot.syntax.printing import print_atom, print_formula, print_item, print_term


def print_clause(clause: Clause) -> str:
    """The clause as one line of program text.

    >>> x = ast.Variable("X")
    >>> print_clause(Clause(ast.Atom("p", (x,)), (ast.Atom("q", (x,)),), {}))
    'p(X) :- q(X).'
    """
    head = print_atom(clause.head)
    if not clause.body:
        return f"{head}."
    return f"{head} :- {', '.join(print_formula(literal) for literal in clause.body)}."


def print_checked(program: CheckedProgram) -> str:
    """The whole program as text: declarations, directives, facts, rules, constraints.

    Columns are declared with built-in types, since subtypes have been checked. A view that is also read from files is
    printed with the hidden relation for the rows of files. Active rules are left out, see `print_rules`.
    """
    shown = [schema for name, schema in program.schemas.items() if name not in program.hidden]
    lines = [print_item(_declaration(schema)) for schema in shown if schema.role is not Role.CONSTRAINT]
    lines += [print_item(_directive(d, program)) for d in program.directives]
    lines += [
        print_item(_view(name, options)) for name, options in program.options.items() if name not in program.hidden
    ]
    lines += _facts(program)
    lines += _clauses(program)
    for constraint in program.constraints.values():
        values = {option: getattr(constraint, option) for option in CONSTRAINT_OPTIONS}
        options = tuple((option, value) for option, value in values.items() if value != CONSTRAINT_OPTIONS[option][0])
        if options:
            lines.append(print_item(ast.DenyPolicy(constraint.name, options)))
    return "".join(line + "\n" for line in lines)


def _declaration(schema: Schema) -> ast.Declaration:
    best = schema.lattice
    attributes = tuple(
        ast.Attribute(c.name, _type_name(c.type), best.function if best is not None and best.column == place else "")
        for place, c in enumerate(schema.columns)
    )
    keys = tuple(tuple(schema.columns[i].name for i in key) for key in schema.keys)
    return ast.Declaration(schema.name, attributes, keys)


def _type_name(type: Type) -> ast.TypeName:
    arguments = (type.precision, type.scale) if type.kind is Kind.DECIMAL else ()
    return ast.TypeName(type.kind.value, arguments, type.nullable)


def _directive(directive: ast.Directive, program: CheckedProgram) -> ast.Directive:
    part = program.input_part.get(directive.relation) if directive.kind == "input" else None
    if part is None:
        return directive
    parameters = directive.parameters
    if not any(key == "filename" for key, _ in parameters):
        parameters = (("filename", f"{directive.relation}.facts"), *parameters)
    return ast.Directive(directive.kind, part, parameters)


def _view(name: str, options: ViewOptions) -> ast.ViewDirective:
    written = [("strategy", options.strategy)]
    if options.materialized is not None:
        written.append(("materialized", "true" if options.materialized else "false"))
    written.append(("policy", options.policy))
    if options.events != "all":
        written.append(("events", options.events))
    if options.semantics != "strict":
        written.append(("semantics", options.semantics))
    return ast.ViewDirective(name, tuple(written))


def _facts(program: CheckedProgram) -> Iterator[str]:
    for name, rows in program.facts.items():
        types = program.schemas[name].types
        for row in rows:
            args = tuple(
                ast.Constant(value, type if value is None else type.required())
                for value, type in zip(row, types, strict=True)
            )
            yield f"{print_atom(ast.Atom(name, args))}."


def _clauses(program: CheckedProgram) -> Iterator[str]:
    # A relation with facts only would be read back as a base relation.
    ruled = {clause.head.relation for clause in program.clauses if clause.body}
    for clause in program.clauses:
        name = clause.head.relation
        schema = program.schemas.get(name)
        if name in program.hidden:
            continue
        denied = schema is not None and schema.role is Role.CONSTRAINT
        if not clause.body and (denied or name not in ruled):
            text = f"{print_atom(clause.head)} :- true."
        else:
            text = print_clause(clause)
        yield f".deny {text}" if denied else text


# ---- active rules ---------------------------------------------------------------------------------------------


def print_rules(program: CheckedProgram) -> str:
    """All active rules, each with the clauses of its hidden view."""
    return "\n".join(_rule(rule, program) for rule in program.rules)


def _rule(rule: CheckedRule, program: CheckedProgram) -> str:
    view = [
        print_clause(clause)
        for clause in (*program.clauses, *rule.asleep)
        if clause.head.relation == rule.becomes and (rule.becomes in program.hidden or rule.asleep)
    ]
    return "".join(f"{line}\n" for line in (*_lines(rule), *(f"  view {line}" for line in view)))


def _lines(rule: CheckedRule) -> Iterator[str]:
    options = [rule.coupling, rule.semantics, f"per {rule.per}"]
    if rule.priority:
        options.append(f"priority {rule.priority}")
    options += [f"precedes {name}" for name in rule.precedes] + [f"follows {name}" for name in rule.follows]
    yield f"rule {rule.visible}: {', '.join(options)}"
    yield f"  identity ({', '.join(rule.instance.columns[i].name for i in rule.identity)})"
    yield f"  on {' or '.join(f'{operation} {relation}' for relation, operation in rule.triggers)}"
    for clause in rule.clauses:
        yield f"  find {print_clause(clause)}"
    for clause in rule.before:
        yield f"  unless {print_clause(clause)}"
    for action in rule.actions:
        yield f"  do {action.text}"
    if not rule.activations:
        yield "  active for nothing"
    elif rule.activations != EVERY:
        for binding in rule.activations:
            values = (f"{name} = {print_term(_constant(rule, name, value))}" for name, value in binding.items())
            yield f"  active for {', '.join(values)}"


def _constant(rule: CheckedRule, name: str, value: object) -> ast.Constant:
    column = next(column for column in rule.instance.columns if column.name == name)
    return ast.Constant(value, column.type)
