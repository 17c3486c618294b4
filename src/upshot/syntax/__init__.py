"""Datalog text to tree and back: `parse(print_program(p)) == p`."""

from upshot.syntax.parser import parse, parse_query
from upshot.syntax.printing import print_atom, print_formula, print_item, print_program, print_term

__all__ = ["parse", "parse_query", "print_atom", "print_formula", "print_item", "print_program", "print_term"]
