"""What is printed parses to the tree it was printed from."""

from __future__ import annotations

import ast as python_ast
from pathlib import Path

import pytest
from hypothesis import example, given

from tests.syntax.trees import constants, programs, query_formulas
from upshot.core.types import FLOAT
from upshot.syntax import parse, parse_query, print_formula, print_item, print_program
from upshot.syntax.ast import Atom, Call, Constant, Formula, Program, Rule, Variable


@given(programs)
def test_a_printed_program_parses_to_the_same_tree(program: Program) -> None:
    text = print_program(program)
    again = parse(text)
    assert again == program
    assert print_program(again) == text


@given(query_formulas)
def test_a_printed_query_parses_to_the_same_formula(formula: Formula) -> None:
    assert parse_query(print_formula(formula)) == formula


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
        f"r({'f(' * 60}X{')' * 60}).",
        f"r() :- {'!' * 95}q().",
        f"r() :- {'(a(), (b(); ' * 20}c(){'))' * 20}.",
        f"r() :- X = {'count : { Y = ' * 30}1{' }' * 30}.",
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
