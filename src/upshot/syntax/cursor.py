"""A cursor over the tokens of a text, which also collects the diagnostics of the parser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NoReturn

from upshot.core.diagnostic import Diagnostic, Severity
from upshot.core.span import Source, Span
from upshot.syntax.hints import TOKENS, WORDS, Hint

DIRECTIVES = (
    *("decl", "type", "input", "output", "printsize", "view", "deny", "rule", "activate"),
    *("deactivate", "plan", "pragma"),
    *("limitsize", "comp", "init", "override", "functor", "lattice", "number_type", "symbol_type", "include", "once"),
)

MOST_ERRORS = 100
"""The most errors reported in one run: further ones are mostly consequences of these."""

DEEPEST_STACK = 560
"""The stack frames that the parser may use of Python's thousand: about a hundred nested brackets."""

DEEPEST_TREE = 100
"""The greatest height of a tree. Comparing or printing a node takes Python 3.11 four of its thousand stack frames a
level, and callers need frames too."""

_NAME = "[A-Za-z_?][A-Za-z0-9_?]*+"
_TOKEN = re.compile(
    rf"""\s*+(?:
      (?P<name> {_NAME})
    | (?P<comment> //[^\n]*+ | /\*(?s:.*?)\*/)
    | (?P<open_comment> /\*)
    | (?P<directive> \.(?:{"|".join(DIRECTIVES)})(?![A-Za-z0-9_?(]))
    | (?P<op> :- | <= | >= | != | <: | == | <> | =< | := | -> | && | \|\| | \\\+
      | [()\[\]{{}},;:.=<>+\-*/%^!|@#] | \$(?![A-Za-z_?]))
    | (?P<number> 0[xXbB][0-9A-Za-z_?]*+ | [0-9]++(?:\.[0-9]++)*+(?:[eE][+-]?[0-9]++)?+[0-9A-Za-z_?]*+)
    | (?P<string> "[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+")
    | (?P<open_string> "[^\n]*+)
    | (?P<single_quoted> '[^'\n]*+'?)
    | (?P<parameter> \${_NAME})
    | (?P<bad> [^\x00-\x7f]++ | [\s\S])
    )""",
    re.VERBOSE,
)


_BROKEN = frozenset(("bad", "single_quoted", "open_string", "open_comment"))

_STARTERS = frozenset(("name", ".", "#", "%"))
"""The tokens other than directives that can begin an item, or a misspelled one."""

Notes = tuple[tuple[Span | None, str], ...]


class Abandon(Exception):
    """The rest of the current item cannot be parsed; its diagnostic has been reported."""


class Enough(Exception):
    """`MOST_ERRORS` were reported."""


class Cursor:
    """One token of lookahead over a source: `kind` is name, number, string, directive, parameter or end, and a
    punctuation mark is its own kind. `last` is where the token before ended."""

    __slots__ = (
        "_broken",
        "_item",
        "_margin",
        "_next",
        "depth",
        "diagnostics",
        "end",
        "height",
        "in_check",
        "in_query",
        "in_rule",
        "in_target",
        "kind",
        "last",
        "source",
        "start",
        "text",
    )

    def __init__(self, source: Source, diagnostics: list[Diagnostic], *, in_query: bool = False) -> None:
        self.source = source
        self.diagnostics = diagnostics
        self.in_query = in_query
        self.in_check = False
        self.in_rule = False
        self.in_target = False
        self.depth = 0
        self.height = 0
        self.last = self.start = self.end = 0
        self.kind = self.text = ""
        self._next = 1 if source.text.startswith("\ufeff") else 0
        self._item = 0
        self._margin = -1
        self._broken = -1
        self.advance()
        self.begin_item()

    # ---- moving ---------------------------------------------------------------------------------

    def advance(self) -> None:
        self.last = self.end
        text = self.source.text
        while found := _TOKEN.match(text, self._next):
            group = found.lastgroup
            assert group is not None
            self._next = found.end()
            if group == "comment":
                continue
            self.start, self.end = found.span(group)
            self.text = found[group]
            if group == "op":
                self.kind = self.text
                return
            if group not in _BROKEN:
                self.kind = group
                return
            if self._broken_token(group):
                return
        self.kind, self.text = "end", ""
        self.start = self.end = self._next = len(text)

    def peek(self, distance: int = 1) -> tuple[str, str]:
        """Kind and text of the token `distance` places after the current one."""
        for kind, text in self._ahead():
            distance -= 1
            if not distance:
                return kind, text
        return "end", ""

    def behind_parentheses(self) -> str:
        """The kind of the token after the parentheses that open right after the current one. A directive ends the
        search: parentheses never contain one."""
        level, closed = 0, False
        for kind, _ in self._ahead():
            if closed or kind == "directive":
                return kind
            level += (kind == "(") - (kind == ")")
            closed = level == 0
        return "end"

    def _ahead(self) -> Iterator[tuple[str, str]]:
        """Kind and text of the tokens after the current one."""
        position = self._next
        while found := _TOKEN.match(self.source.text, position):
            group = found.lastgroup
            assert group is not None
            position = found.end()
            if group not in ("comment", "bad"):
                yield (found[group] if group == "op" else group), found[group]

    def take(self, kind: str, expected: str = "", *, opened: int = -1) -> str:
        """The text of the current token, which must be of this kind; advance. `opened` is the place of the bracket
        that it closes."""
        if self.kind != kind:
            self.unexpected(expected or f"`{kind}`", opened=opened)
        text = self.text
        self.advance()
        return text

    def follows_name(self) -> bool:
        """Test whether a name follows the current token directly."""
        found = _TOKEN.match(self.source.text, self.end)
        return found is not None and found.lastgroup == "name" and found.start("name") == self.end

    def starts_line(self) -> bool:
        """Test whether only space precedes the current token on its line."""
        return self.source.text.find("\n", self.last, self.start) >= 0 or self.last == 0

    def at_margin(self) -> bool:
        """Test whether the current token starts a line no further right than the item did: probably the next item."""
        if not self.starts_line():
            return False
        if self._margin < 0:
            self._margin = self._column(self._item)
        return self._column(self.start) <= self._margin

    def _column(self, position: int) -> int:
        return position - self.source.text.rfind("\n", 0, position)

    # ---- items ----------------------------------------------------------------------------------

    def begin_item(self) -> None:
        self._item = self.start
        self._margin = -1
        self.depth = 0
        self.in_check = self.in_target = False
        self.in_rule = False

    def item_span(self) -> Span:
        return Span(self.source, self._item, max(self.last, self._item))

    def span(self, start: int) -> Span:
        """From `start` to the end of the token just passed."""
        return Span(self.source, start, self.last)

    def skip_clause(self) -> None:
        """Advance past the next `.`, or to the next directive."""
        while self.kind not in ("end", "directive"):
            stop = self.kind == "."
            self.advance()
            if stop:
                return

    def skip_comment(self) -> None:
        """Advance to the next line of the text."""
        end = self.source.text.find("\n", self.start)
        self._next = len(self.source.text) if end < 0 else end
        self.advance()

    def skip_line(self) -> None:
        """Advance to the next directive, or to the next line that starts in the column of this item."""
        if self.start == self._item and self.kind != "end":
            self.advance()
        while self.kind not in ("end", "directive") and not (self.kind in _STARTERS and self.at_margin()):
            self.advance()

    def skip_block(self) -> None:
        """Advance past the `}` that closes the first `{` of this item, or to a directive outside of braces."""
        level = 0
        while self.kind != "end" and (level or self.kind != "directive"):
            level += (self.kind == "{") - (self.kind == "}")
            stop = self.kind == "}" and level <= 0
            self.advance()
            if stop:
                return

    # ---- depth ----------------------------------------------------------------------------------

    def enter(self, frames: int) -> None:
        """Enter one more level of nesting, which takes this many stack frames."""
        self.depth += frames
        if self.depth > DEEPEST_STACK:
            self.too_deep("this is nested too deeply", self.start, self.end)

    def leave(self, frames: int) -> None:
        self.depth -= frames

    def grow(self, height: int, start: int) -> None:
        """Set the height of the node just parsed."""
        self.height = height
        if height > DEEPEST_TREE:
            self.too_deep(f"more than {DEEPEST_TREE} nested operations", start, self.last)

    def too_deep(self, message: str, start: int, end: int) -> NoReturn:
        self.fail("too-deep", message, start, end, help="name a part with `Part = …`, or define a relation for it")

    # ---- errors ---------------------------------------------------------------------------------

    def report(
        self, slug: str, message: str, start: int, end: int, *, label: str = "", help: str = "", notes: Notes = ()
    ) -> None:
        span = Span(self.source, start, end)
        self.diagnostics.append(Diagnostic(slug, message, span, label=label, help=help, notes=notes))
        if len(self.diagnostics) >= MOST_ERRORS:
            words = f"stopped after {MOST_ERRORS} errors; fix these first"
            self.diagnostics.append(Diagnostic("too-many-errors", words, severity=Severity.NOTE))
            raise Enough

    def fail(
        self, slug: str, message: str, start: int, end: int, *, label: str = "", help: str = "", notes: Notes = ()
    ) -> NoReturn:
        """Report the error, unless a broken token of this item explains it already, and abandon the item."""
        if self._broken < self._item:
            self.report(slug, message, start, end, label=label, help=help, notes=notes)
        raise Abandon

    def give_up(self, hint: Hint, start: int, end: int) -> NoReturn:
        """`fail` with the hint for a construct of another language."""
        slug, message, help = hint
        self.fail(slug, message, start, end, help=help)

    def unexpected(self, expected: str, *, help: str = "", opened: int = -1) -> NoReturn:
        """`fail` at the current token, which is not the expected one."""
        if hint := TOKENS.get(self.kind) or (WORDS.get(self.text) if self.kind == "name" else None):
            self.give_up(hint, self.start, self.end)
        notes: Notes = ()
        if opened >= 0:
            notes = ((Span(self.source, opened, opened + 1), f"this `{self.source.text[opened]}` is not closed"),)
        if self.kind == "end":
            message = f"expected {expected}, found the end of the text"
            self.fail("unexpected-end", message, self.last, self.last, help=help, notes=notes)
        message, label = f"expected {expected}, found `{shown(self.text)}`", f"expected {expected}"
        self.fail("unexpected-token", message, self.start, self.end, label=label, help=help, notes=notes)

    def _broken_token(self, group: str) -> bool:
        """Report text that is no token; true if it is read as one (an unclosed string is)."""
        self._broken = self.start
        if group == "open_comment":
            self._next = len(self.source.text)
            message, help = "this comment is not closed", "close it with `*/`"
            self.report("unterminated-comment", message, self.start, self.end, help=help)
            return False
        if group == "open_string":
            message, help = "this text is not closed on its line", 'close it with `"`; write a line break as `\\n`'
            self.report("unterminated-text", message, self.start, self.end, help=help)
        elif group == "single_quoted":
            message, help = "single quotes are not supported", 'write text in double quotes: `"text"`'
            self.report("unexpected-character", message, self.start, self.end, help=help)
        else:
            message = f"{_described(self.text)} is not allowed here"
            self.report("unexpected-character", message, self.start, self.end, help=_cure(self.text))
            return False
        self.kind, self.text = "string", '""'
        return True


def shown(text: str, longest: int = 40) -> str:
    """The text for a message: shortened, and without control characters."""
    cut = text[:longest] + "…" if len(text) > longest else text
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in cut)


def _described(text: str) -> str:
    if len(text) == 1 and not text.isprintable():
        return f"the character U+{ord(text):04X}"
    return f"`{shown(text)}`"


def _cure(text: str) -> str:
    if "\u2018" <= text[0] <= "\u201f":
        return 'write text in plain double quotes: `"text"`'
    if text == "&":
        return "join literals with `,`"
    if text == "~":
        return "write negation as `!`"
    if text[0] > "\x7f":
        return "names consist of the letters a-z and A-Z, digits, `_` and `?`; write other characters in quoted text"
    return "remove it"
