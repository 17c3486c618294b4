"""What is printed parses to the tree it was printed from."""

from __future__ import annotations

import ast as python_ast
from pathlib import Path

import pytest
from hypothesis import example, given, settings

from tests.syntax.trees import constants, programs, query_formulas
from upshot.core.types import FLOAT
from upshot.syntax import parse, parse_query, print_formula, print_item, print_program
from upshot.syntax.ast import Atom, Constant, Formula, Program, Rule

MANY = 120


@settings(max_examples=MANY)
@given(programs)
def test_a_printed_program_parses_to_the_same_tree(program: Program) -> None:
    text = print_program(program)
    again = parse(text)
    assert again == program
    assert print_program(again) == text


@settings(max_examples=MANY)
@given(query_formulas)
def test_a_printed_query_parses_to_the_same_formula(formula: Formula) -> None:
    assert parse_query(print_formula(formula)) == formula


@settings(max_examples=MANY)
@given(constants)
@example(Constant(-(2**63)))
@example(Constant(5e-324, FLOAT))
@example(Constant(-0.0, FLOAT))
def test_a_printed_constant_parses_to_the_same_value_and_type(constant: Constant) -> None:
    rule = parse(print_item(Rule((Atom("r", (constant,)),)))).items[0]
    assert isinstance(rule, Rule)
    (read,) = rule.heads[0].args
    assert read == constant
    assert type(read.value) is type(constant.value)


@pytest.mark.parametrize(
    "text",
    [
        f"r({' + '.join(['X'] * 99)}).",
        f"r({'(X + ' * 49}X{')' * 49}).",
        f"r({'f(' * 97}X{')' * 97}).",
        f"r({'(' * 200}X{')' * 200}).",
        f"r({'-(' * 90}X{')' * 90}).",
        f"r() :- {'!' * 98}q().",
        f"r() :- {'(a(), !(b(); ' * 21}c(){'))' * 21}.",
        f"r() :- X = {'count : { Y = ' * 48}1{' }' * 48}.",
    ],
)
def test_trees_at_the_limit_can_be_compared_hashed_shown_and_printed(text: str) -> None:
    program = parse(text)
    assert parse(print_program(program)) == program
    assert hash(program) == hash(parse(text))
    assert repr(program)


def test_the_written_layout_of_a_program_is_kept_by_printing_it() -> None:
    text = (Path(__file__).parent / "layout.dl").read_text(encoding="utf-8")
    assert print_program(parse(text)) == text


def test_every_slug_of_the_parser_is_documented(root: Path) -> None:
    used = {
        node.value
        for path in (root / "src/upshot/syntax").glob("*.py")
        for node in python_ast.walk(python_ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, python_ast.Constant)
        and isinstance(node.value, str)
        and node.value.replace("-", "").isalpha()
        and "-" in node.value.strip("-")
    }
    documented = (root / "docs/reference/diagnostics/syntax.md").read_text(encoding="utf-8")
    assert {slug for slug in used if f"`{slug}`" not in documented} == set()
    assert "unexpected-token" in used
