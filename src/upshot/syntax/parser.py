"""Parse programs and queries; one error reports every mistake of the text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from upshot.core.diagnostic import Diagnostic
from upshot.core.errors import ProgramError
from upshot.core.span import Source, Span
from upshot.syntax.ast import Formula, Program, SyntaxNode
from upshot.syntax.bodies import formula
from upshot.syntax.components import expanded_components
from upshot.syntax.cursor import Abandon, Cursor, Enough
from upshot.syntax.items import items
from upshot.syntax.preprocess import Expansion, is_preprocessed, preprocess
from upshot.syntax.rebuild import rebuilt

_T = TypeVar("_T")


def parse(text: str, name: str = "<text>") -> Program:
    """Parse a program; messages refer to the text by `name`.

    >>> parse("edge(1, 2).").items[0].heads[0].relation
    'edge'
    """
    source = Source(name, text)
    return _preprocessed(source) if is_preprocessed(text) else _plain(source)


def _plain(source: Source) -> Program:
    whole = Span(source, 0, len(source.text))
    try:
        written = _read(source, items)
    except ProgramError as error:
        if error.understood is not None:
            made, _ = expanded_components(error.understood)
            error.understood = Program(made, span=whole)
        raise
    made, found = expanded_components(written)
    program = Program(made, span=whole)
    if found:
        raise ProgramError(sorted(found, key=_place), understood=program)
    return program


def _preprocessed(source: Source) -> Program:
    """Parse a text with preprocessor directives; all spans refer to the text before preprocessing."""
    expansion, found = preprocess(source)
    try:
        program = _located(_plain(Source(source.name, expansion.text())), expansion)
    except ProgramError as error:
        if error.understood is not None:
            error.understood = _located(error.understood, expansion)
        located = [_moved(each, expansion) for each in error.diagnostics]
        raise ProgramError([*found, *located], understood=error.understood) from None
    if found:
        raise ProgramError(found, understood=program)
    return program


def _located(program: Program, expansion: Expansion) -> Program:
    def locate(node: SyntaxNode) -> SyntaxNode:
        return node if node.span is None else replace(node, span=expansion.origin(node.span))

    return rebuilt(program, locate)


def _moved(diagnostic: Diagnostic, expansion: Expansion) -> Diagnostic:
    span = None if diagnostic.span is None else expansion.origin(diagnostic.span)
    notes = tuple((None if at is None else expansion.origin(at), words) for at, words in diagnostic.notes)
    return replace(diagnostic, span=span, notes=notes)


def parse_query(text: str, name: str = "<query>") -> Formula:
    """Parse the body of a query, in which `$x` is a parameter of the caller; the final `.` is optional."""
    return _read(Source(name, text), _query, in_query=True)


def _query(c: Cursor) -> Formula:
    if c.kind == "end":
        c.fail("empty-query", "the query is empty", 0, 0, help="write a body, as in `edge(X, Y), X < Y`")
    if c.text == "?" and c.peek()[0] == "-":
        c.fail("unexpected-token", "a query is only a body", c.start, c.end, help="omit `?-`")
    found = formula(c)
    if c.kind == ".":
        c.advance()
    if c.kind != "end":
        c.unexpected("`,`, `;` or the end of the query")
    return found


def _read(source: Source, rule: Callable[[Cursor], _T], *, in_query: bool = False) -> _T:
    found: list[Diagnostic] = []
    result: _T | None = None
    try:
        c = Cursor(source, found, in_query=in_query)
        result = rule(c)
    except (Abandon, Enough):
        pass
    except RecursionError:
        # The limits of the cursor assume a caller with at most some hundred stack frames; this one has more.
        words = "the text is nested too deeply for the stack of the calling program"
        raise ProgramError([Diagnostic("too-deep", words, help="parse it from a shallower call")]) from None
    else:
        if not found:
            return result
    raise ProgramError(sorted(found, key=_place), understood=result)


def _place(diagnostic: Diagnostic) -> int:
    return diagnostic.span.start if diagnostic.span is not None else 2**63
