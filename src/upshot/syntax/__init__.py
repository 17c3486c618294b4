"""Datalog text to tree and back: `parse(print_program(p)) == p`.

Input: a text. Output: a `Program` of frozen nodes with spans, or one error with all mistakes of the text. Read
`ast` (the tree), `parser` (the entry), `preprocess`, `cursor` (tokens), `items` and `qualifiers` (directives, rules,
components), `bodies` (terms and formulas), `components` (their expansion), `printing` (the inverse of the parser).
`rebuild` maps a function over a tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from upshot.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from upshot.syntax.parser import parse, parse_query
    from upshot.syntax.printing import print_atom, print_formula, print_item, print_program, print_term
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "parse": "upshot.syntax.parser",
            "parse_query": "upshot.syntax.parser",
            "print_atom": "upshot.syntax.printing",
            "print_formula": "upshot.syntax.printing",
            "print_item": "upshot.syntax.printing",
            "print_program": "upshot.syntax.printing",
            "print_term": "upshot.syntax.printing",
        },
    )

__all__ = ["parse", "parse_query", "print_atom", "print_formula", "print_item", "print_program", "print_term"]
