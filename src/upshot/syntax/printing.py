"""Print a tree as text: `parse(print_program(p)) == p`, with no more parentheses than needed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import assert_never

from upshot.core.fact_text import quoted, spelled
from upshot.syntax import ast, operators

WIDTH = 100
_INDENT = "    "
_TIGHTEST = 99
_BARE_VALUE = re.compile(r"[A-Za-z_?][A-Za-z0-9_?]*|-?[0-9]{1,18}")


def print_program(program: ast.Program) -> str:
    """The program, one item a line; long bodies continue on indented lines."""
    return "".join(print_item(item) + "\n" for item in program.items)


def print_item(item: ast.Item) -> str:
    """One fact, rule or directive, with its final `.` where it has one."""
    match item:
        case ast.Rule():
            return print_rule(item.heads, item.body)
        case ast.Declaration():
            return _declaration(item)
        case ast.TypeDeclaration(name=name, bases=bases, equivalent=equivalent):
            parts = map(_branch, item.branches) if item.branches else map(_type_name, bases)
            return f".type {name} {'=' if equivalent else '<:'} {' | '.join(parts)}"
        case ast.Directive(kind=kind, relation=relation, parameters=parameters):
            values = ", ".join(f"{key}={quoted(value)}" for key, value in parameters)
            return f".{kind} {relation}" + (f"({values})" if values else "")
        case ast.ViewDirective(relation=relation, options=options):
            return f".view {relation}{_options(options)}"
        case ast.DisjunctiveRule(heads=heads, body=body):
            head = " | ".join(map(print_atom, heads))
            return f"{head}." if body is None else _clause(head, body)
        case ast.FunctorDeclaration(name=name, parameters=parameters, result=result, revision=revision):
            columns = ", ".join(f"{each.name}: {_type_name(each.type)}" for each in parameters)
            kind = "fold" if item.fold else "stateful" if item.stateful else "pure"
            return f".functor {name}({columns}): {_type_name(result)} {kind}{f'({revision})' * bool(revision)}"
        case ast.Subsumption(worse=worse, better=better, body=body):
            return _clause(f"{print_atom(worse)} <= {print_atom(better)}", body)
        case ast.Deny(head=head, body=body):
            return _clause(f".deny {print_atom(head)}", body)
        case ast.DenyPolicy(name=name, options=options):
            return f".deny {name}{_options(options)}"
        case ast.ActiveRule():
            return _active_rule(item)
        case ast.Activation(rule=rule, bindings=bindings, active=active):
            values = ", ".join(f"{name} = {print_term(value)}" for name, value in bindings)
            return f".{'activate' if active else 'deactivate'} {rule}" + (f"({values})" if values else "")
        case ast.Ignored(text=text):
            return text
        case _:
            assert_never(item)


def print_rule(heads: Sequence[ast.Atom], body: ast.Formula | None) -> str:
    """`closure(X, Y) :- edge(X, Z), closure(Z, Y).`"""
    head = ", ".join(map(print_atom, heads))
    return f"{head}." if body is None else _clause(head, body)


# ---- formulas ---------------------------------------------------------------------------------


def print_formula(formula: ast.Formula) -> str:
    """A body on one line."""
    match formula:
        case ast.Atom():
            return print_atom(formula)
        case ast.Comparison(op=op, left=left, right=right):
            return f"{print_term(left)} {op} {print_term(right)}"
        case ast.Test(name=name, args=args):
            return name if name in ("true", "false") else f"{name}({_terms(args)})"
        case ast.Not(body=body):
            return f"!{_grouped(body, (ast.And, ast.Or))}"
        case ast.And(parts=parts):
            return ", ".join(_grouped(part, (ast.Or,)) for part in parts) or "true"
        case ast.Or(parts=parts):
            return "; ".join(map(print_formula, parts)) or "false"
        case _:
            assert_never(formula)


def _grouped(formula: ast.Formula, loose: tuple[type, ...]) -> str:
    text = print_formula(formula)
    return f"({text})" if isinstance(formula, loose) else text


def print_atom(atom: ast.Atom) -> str:
    """`old r(X, _)`; a relation without columns is `r()`."""
    state = f"{atom.state} " if atom.state else ""
    return f"{state}{atom.relation}({_terms(atom.args)})"


# ---- terms ------------------------------------------------------------------------------------


def print_term(term: ast.Term) -> str:
    """The term as text."""
    return _term(term)[0]


def _terms(terms: Iterable[ast.Term]) -> str:
    return ", ".join(map(print_term, terms))


def _term(term: ast.Term) -> tuple[str, int]:
    """The text, and the precedence of its outermost operator."""
    match term:
        case ast.Variable(name=name):
            return name, _TIGHTEST
        case ast.Wildcard():
            return "_", _TIGHTEST
        case ast.Parameter(name=name):
            return f"${name}", _TIGHTEST
        case ast.Constant():
            text = spelled(term.value, term.type)
            return text, operators.UNARY if text.startswith("-") else _TIGHTEST
        case ast.Call(function=function, args=args):
            return _call(function, args)
        case ast.Aggregate(function=function, target=target, body=body):
            over = "" if target is None else f" {print_term(target)}"
            if function.startswith("@") and over.startswith(" ("):
                over = f"({over[1:]})"  # otherwise the parentheses would hold the arguments of a call
            return f"{function.partition('(')[0]}{over} : {{ {print_formula(body)} }}", _TIGHTEST
        case _:
            assert_never(term)


def _call(function: str, args: tuple[ast.Term, ...]) -> tuple[str, int]:
    if len(args) == 2 and function in operators.INFIX:
        holds, least = operators.INFIX[function]
        left = _operand(args[0], holds if least > holds else holds + 1)
        return f"{left} {function} {_operand(args[1], least)}", holds
    if len(args) == 1 and function in operators.PREFIX.values():
        return _prefixed(function, args[0]), operators.UNARY
    if structure := _structure(function, args):
        return structure, _TIGHTEST
    if function.startswith(ast.CAST):
        return f"as({_terms(args)}, {function.removeprefix(ast.CAST)})", _TIGHTEST
    name = function.partition("(")[0]  # the name of a function of the user includes its types
    return f"{name}({_terms(args)})", _TIGHTEST


def _structure(function: str, args: tuple[ast.Term, ...]) -> str:
    """The text of a record or branch, as the parser or `check` represents it; empty for any other function."""
    if function == "[]" and args and isinstance(args[0], ast.Constant):
        function, args = str(args[0].value).partition("(")[0], args[1:]
        function = function if function.startswith("$") else "["
    if function == "[":
        return f"[{_terms(args)}]"
    if function.startswith("$"):
        return f"{function}({_terms(args)})" if args else function
    return ""


def _prefixed(function: str, arg: ast.Term) -> str:
    if function != "neg":
        return f"{function} {_operand(arg, operators.UNARY)}"
    operand = _operand(arg, operators.UNARY)
    # `-3` would read as a constant; the call of neg on 3 is `-(3)`.
    return f"-({operand})" if isinstance(arg, ast.Constant) and operand[0].isdigit() else f"-{operand}"


def _operand(term: ast.Term, least: int) -> str:
    text, holds = _term(term)
    return text if holds >= least else f"({text})"


# ---- items ------------------------------------------------------------------------------------


def _declaration(item: ast.Declaration) -> str:
    attributes = [f"{a.name}: {a.lattice + ' ' * bool(a.lattice)}{_type_name(a.type)}" for a in item.attributes]
    words = [f"key({', '.join(key)})" for key in item.keys] + list(item.qualifiers)
    words += [f"part_of({item.part_of})"] * bool(item.part_of)
    domains = ", ".join(f"({', '.join(each)})" for each in item.choice)
    words += [f"choice-domain {domains}"] * bool(item.choice)
    constraints = list(map(_short_form, item.constraints))
    line = " ".join([f".decl {item.name}({', '.join(attributes)})", *words, *constraints])
    if len(line) <= WIDTH:
        return line
    first = " ".join([f".decl {item.name}({', '.join(attributes)})", *words])
    if len(first) > WIDTH and attributes:
        columns = "\n".join(_filled(_separated(attributes, ",", "")))
        first = " ".join([f".decl {item.name}(\n{columns}\n)", *words])
    return "\n".join([first, *(_INDENT + constraint for constraint in constraints)])


def _short_form(form: ast.ShortForm) -> str:
    name = "" if isinstance(form, ast.NotNull) or not form.name else f" {form.name}"
    match form:
        case ast.ForeignKey(columns=columns, relation=relation, referred=referred):
            return f"foreign{name}({', '.join(columns)}) {relation}({', '.join(referred)})"
        case ast.Determines(columns=columns, determined=determined):
            return f"determines{name}({', '.join(columns)} : {', '.join(determined)})"
        case ast.NotNull(columns=columns):
            return f"notnull({', '.join(columns)})"
        case ast.ValueCheck(condition=condition):
            return f"check{name}({print_formula(condition)})"
        case _:
            assert_never(form)


def _branch(branch: ast.BranchDeclaration) -> str:
    fields = ", ".join(f"{each.name}: {_type_name(each.type)}" for each in branch.fields)
    return f"{branch.name} {{{fields}}}" if branch.name else f"[{fields}]"


def _type_name(name: ast.TypeName) -> str:
    sizes = f"({','.join(map(str, name.arguments))})" if name.arguments else ""
    return f"{name.name}{sizes}{'?' if name.nullable else ''}"


def _options(options: Iterable[tuple[str, str]]) -> str:
    return "".join(f" {key}={_option_value(value)}" for key, value in options)


def _option_value(value: str) -> str:
    return value if _BARE_VALUE.fullmatch(value) else quoted(value)


def _active_rule(item: ast.ActiveRule) -> str:
    parameters = f"({_terms(item.parameters)})" if item.parameters else ""
    head = f".rule {item.name}{parameters}{_options(item.options)}"
    if item.event is not None:
        head += f" on {item.event.kind} {print_atom(item.event.atom)}"
    condition = "" if item.condition is None else f" when {print_formula(item.condition)}"
    actions = ", ".join(map(_action, item.actions))
    line = f"{head}{condition} do {actions}."
    if len(line) <= WIDTH:
        return line
    lines = [head]
    if item.condition is not None:
        body = _body(item.condition, "", _INDENT + " " * len("when "))
        lines += [f"{_INDENT}when {body[0].lstrip()}", *body[1:]]
    return "\n".join([*lines, f"{_INDENT}do {actions}."])


def _action(action: ast.ActionClause) -> str:
    return f"{action.kind} {print_atom(action.atom)}"


# ---- layout -----------------------------------------------------------------------------------


def _clause(head: str, body: ast.Formula) -> str:
    line = f"{head} :- {print_formula(body)}."
    return line if len(line) <= WIDTH else "\n".join([f"{head} :-", *_body(body, ".", _INDENT)])


def _body(body: ast.Formula, end: str, indent: str) -> list[str]:
    """The lines of a long body: each alternative begins a line, and its literals fill lines."""
    alternatives = body.parts if isinstance(body, ast.Or) and body.parts else (body,)
    lines: list[str] = []
    for position, part in enumerate(alternatives, start=1):
        literals_of = part.parts if isinstance(part, ast.And) and part.parts else (part,)
        loose = (ast.Or,) if isinstance(part, ast.And) else ()
        texts = [_grouped(literal, loose) for literal in literals_of]
        lines += _filled(_separated(texts, ",", end if position == len(alternatives) else ";"), indent)
    return lines


def _separated(texts: Sequence[str], mark: str, end: str) -> list[str]:
    return [text + (mark if position < len(texts) else end) for position, text in enumerate(texts, start=1)]


def _filled(pieces: Iterable[str], indent: str = _INDENT) -> list[str]:
    """The pieces in lines of at most `WIDTH` columns, a longer piece on a line of its own."""
    lines: list[str] = []
    for piece in pieces:
        if lines and len(lines[-1]) + 1 + len(piece) <= WIDTH:
            lines[-1] += f" {piece}"
        else:
            lines.append(indent + piece)
    return lines
