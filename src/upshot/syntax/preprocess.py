"""The preprocessor: `#include`, `#define` and conditions, carried out before parsing.

It supports the part of C's preprocessor that Datalog programs use. `Expansion.origin` maps every character of the
expanded text to its place in a file of the user, so that spans never point into expanded text.
"""

from __future__ import annotations

import operator
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from upshot.core.diagnostic import Diagnostic
from upshot.core.errors import system_reason
from upshot.core.span import Source, Span

_WORDS = "include|define|undef|ifdef|ifndef|if|elif|else|endif|error|pragma|line"
_LINE = re.compile(rf"[ \t]*(?:#[ \t]*(?P<word>{_WORDS})\b|\.(?P<dot>include|once)\b)")
_USED = re.compile(rf"^[ \t]*(?:#[ \t]*(?:{_WORDS})\b|\.(?:include|once)\b)", re.MULTILINE)
_REST = re.compile(r"(?:\\\r?\n|[^\n])*+")
_PIECE = re.compile(
    r"""(?P<comment>//[^\n]*+|/\*(?s:.*?)\*/)|(?P<string>"(?:\\[^\n]|[^"\\\n])*+"?)
    |(?P<name>[A-Za-z_?][A-Za-z0-9_?]*+)|(?P<number>[0-9][0-9A-Za-z_.]*?(?=[^0-9A-Za-z_]|$))|(?P<end>\n)|(?s:.)""",
    re.VERBOSE,
)
_COMMENT = re.compile(r'("(?:\\[^\n]|[^"\\\n])*+"?)|//[^\n]*+|/\*(?s:.*?)(?:\*/|$)')
_FILE = re.compile(r'\s*(?:"(?P<near>[^"\n]+)"|<(?P<far>[^>\n]+)>)\s*')
_DEEPEST = 64
"""Files inside one another."""


@dataclass(slots=True)
class Expansion:
    """The expanded text in pieces, each with its original place. A piece that is `exact` is a copy of the text there;
    any other is the expansion of a macro."""

    texts: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    places: list[tuple[Source, int, int, bool]] = field(default_factory=list)
    length: int = 0

    def add(self, text: str, source: Source, start: int, end: int, *, exact: bool = True) -> None:
        if not text:
            return
        if exact and self.places:
            before, first, last, was_exact = self.places[-1]
            if was_exact and before is source and last == start:
                self.places[-1] = (source, first, end, True)
                self.texts.append(text)
                self.length += len(text)
                return
        self.texts.append(text)
        self.starts.append(self.length)
        self.places.append((source, start, end, exact))
        self.length += len(text)

    def text(self) -> str:
        return "".join(self.texts)

    def origin(self, span: Span) -> Span:
        """The original place of a span; of one across files, the part in the first file."""
        if not self.places:
            return span
        source, start, end, exact = self._place(span.start)
        if exact:
            start += span.start - self.starts[self._piece(span.start)]
        last_source, last_start, last_end, last_exact = self._place(max(span.start, span.end - 1))
        if last_source is not source:
            return Span(source, start, end)
        if last_exact and span.end > span.start:
            last_end = last_start + span.end - self.starts[self._piece(span.end - 1)]
        elif span.end == span.start:
            last_end = start
        return Span(source, start, max(start, last_end))

    def _piece(self, position: int) -> int:
        return max(0, bisect_right(self.starts, position) - 1)

    def _place(self, position: int) -> tuple[Source, int, int, bool]:
        return self.places[self._piece(position)]


def is_preprocessed(text: str) -> bool:
    """Test whether the text has preprocessor directives."""
    return _USED.search(text) is not None


def preprocess(source: Source) -> tuple[Expansion, list[Diagnostic]]:
    """The text with includes, macros and conditions expanded, and the errors found."""
    run = _Run()
    run.file(source)
    return run.expansion, run.diagnostics


@dataclass(slots=True)
class _OpenCondition:
    """An open `#if`: `active` if its current branch is, `taken` if a branch was active before, `outer` if the text
    around is active."""

    span: Span
    outer: bool
    active: bool
    taken: bool
    has_else: bool = False


@dataclass(slots=True)
class _Run:
    expansion: Expansion = field(default_factory=Expansion)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    macros: dict[str, Macro] = field(default_factory=dict)
    once: set[Path] = field(default_factory=set)
    open_files: list[Source] = field(default_factory=list)

    def file(self, source: Source) -> None:
        """Read one file into the expansion."""
        self.open_files.append(source)
        conditions: list[_OpenCondition] = []
        text, position = source.text, 0
        while position < len(text):
            found = _LINE.match(text, position)
            if found is None:
                position = self._plain_line(source, position, _active(conditions))
                continue
            rest = _REST.match(text, found.end())
            assert rest is not None
            word = found["word"] or ("include" if found["dot"] == "include" else "once")
            start = found.start("word") - 1 if found["word"] else found.start("dot") - 1
            span = Span(source, start, found.end())
            self._directive(word, rest[0], span, conditions)
            position = rest.end()
        for condition in conditions:
            self._report("this condition is not closed", condition.span, "close it with `#endif`")
        self.expansion.add("\n", source, len(text), len(text))
        self.open_files.pop()

    def _plain_line(self, source: Source, position: int, active: bool) -> int:
        """Copy the text up to the end of a line with its macros expanded, but not in comments and strings."""
        text = source.text
        while found := _PIECE.match(text, position):
            position = found.end()
            if active and found.lastgroup == "name" and found[0] in self.macros:
                position = self._use(source, found.start(), found[0])
            elif active:
                self.expansion.add(found[0], source, found.start(), found.end())
            if found.lastgroup == "end":
                break
        return position

    def _use(self, source: Source, start: int, name: str) -> int:
        """Expand the macro used at `start`; return the position after it."""
        try:
            made, end = expand(source.text, start, self.macros)
        except MacroTrouble as trouble:
            end = start + len(name)
            self._report(str(trouble), Span(source, start, end), trouble.help)
            made = ""
        self.expansion.add(made, source, start, end, exact=False)
        return end

    def _directive(self, word: str, rest: str, span: Span, conditions: list[_OpenCondition]) -> None:
        if word in ("if", "ifdef", "ifndef", "elif", "else", "endif"):
            self._condition(word, _plain(rest), span, conditions)
        elif not _active(conditions):
            return
        elif word == "include":
            self._include(_plain(rest), span)
        elif word == "define":
            self._define(_plain(rest), span)
        elif word == "undef":
            self.macros.pop(_plain(rest).strip(), None)
        elif word == "error":
            self._report(rest.strip() or "`#error` is reached", span, "an `#error` directive stops here")
        elif word == "once" or (word == "pragma" and _plain(rest).strip() == "once"):
            self.once.add(Path(span.source.name).resolve())

    def _define(self, rest: str, span: Span) -> None:
        try:
            name, macro = definition(rest)
        except MacroTrouble as trouble:
            self._report(str(trouble), span, trouble.help)
            return
        self.macros[name] = macro

    def _condition(self, word: str, rest: str, span: Span, conditions: list[_OpenCondition]) -> None:
        if word in ("if", "ifdef", "ifndef"):
            outer = _active(conditions)
            active = outer and self._holds(word, rest, span)
            conditions.append(_OpenCondition(span, outer, active, active))
            return
        if not conditions or (conditions[-1].has_else and word != "endif"):
            self._report(f"`#{word}` has no `#if`", span, "open the condition with `#ifdef NAME` or `#if …`")
            return
        last = conditions[-1]
        if word == "endif":
            conditions.pop()
            return
        last.has_else = word == "else"
        last.active = last.outer and not last.taken and (word == "else" or self._holds("if", rest, span))
        last.taken = last.taken or last.active

    def _holds(self, word: str, rest: str, span: Span) -> bool:
        if word != "if":
            name = rest.strip()
            if not name:
                self._report(f"`#{word}` needs the name of a macro", span, f"as in `#{word} SMALL`")
            return (name in self.macros) == (word == "ifdef")
        try:
            return holds(rest, self.macros)
        except (BadCondition, MacroTrouble) as trouble:
            help = "a condition has integers, `defined(NAME)`, comparisons, `+ - * / %`, `!`, `&&` and `||`"
            self._report(str(trouble), span, help)
            return False

    def _include(self, rest: str, span: Span) -> None:
        named = _FILE.fullmatch(rest)
        if named is None:
            self._report("`#include` needs a file", span, 'as in `#include "types.dl"`')
            return
        here = Path(span.source.name)
        if not here.is_file():
            message = "only the text of a file can include others"
            self._report(message, span, "save the text, and define the file by its path", "include-without-file")
            return
        path = here.parent / (named["near"] or named["far"])
        if path.resolve() in self.once:
            return
        chain = [Path(each.name).resolve() for each in self.open_files]
        if path.resolve() in chain or len(chain) >= _DEEPEST:
            self._report(f"`{path}` includes itself", span, "guard it with `#ifndef NAME`, or write `#pragma once`")
            return
        try:
            text = path.read_bytes().decode("utf-8-sig")
        except OSError as error:
            self._missing(path, system_reason(error), span)
        except UnicodeDecodeError:
            self._missing(path, "it is not UTF-8 text", span)
        else:
            self.file(Source(str(path), text))

    def _missing(self, path: Path, reason: str, span: Span) -> None:
        help = "name the file relative to the folder of this one"
        self._report(f"cannot include `{path}`: {reason}", span, help, "missing-include")

    def _report(self, message: str, span: Span, help: str, slug: str = "bad-preprocessor-line") -> None:
        self.diagnostics.append(Diagnostic(slug, message, span, help=help))


def _active(conditions: list[_OpenCondition]) -> bool:
    return not conditions or conditions[-1].active


def _plain(rest: str) -> str:
    """The argument of a directive: one line, without comments."""
    joined = rest.replace("\\\r\n", " ").replace("\\\n", " ")
    return _COMMENT.sub(lambda found: found[1] or " ", joined)


# ---- macros --------------------------------------------------------------------------------------------------

_NAME = re.compile(r"[A-Za-z_?][A-Za-z0-9_?]*+")
_DEFINITION = re.compile(r"\s*([A-Za-z_?][A-Za-z0-9_?]*+)(\(([^()]*)\))?(.*)", re.DOTALL)
_TOKEN = re.compile(r'"(?:\\[^\n]|[^"\\\n])*+"?|//[^\n]*+|/\*(?s:.*?)\*/|[A-Za-z_?][A-Za-z0-9_?]*+|\s++|##|(?s:.)')
_FURTHER = "__VA_ARGS__"
LONGEST = 1_000_000
"""Characters that one use may expand to."""


class MacroTrouble(Exception):
    """A wrong definition or use of a macro."""

    def __init__(self, message: str, help: str) -> None:
        super().__init__(message)
        self.help = help


@dataclass(frozen=True, slots=True)
class Macro:
    """`parameters` is None for a macro that is used without parentheses. The last parameter takes all further arguments
    if it is `__VA_ARGS__`, which is written `...`."""

    parameters: tuple[str, ...] | None
    body: str


def definition(text: str) -> tuple[str, Macro]:
    """The name and the macro that follow `#define`.

    >>> definition("EDGE(x, y) edge(x, y)")
    ('EDGE', Macro(parameters=('x', 'y'), body='edge(x, y)'))
    """
    found = _DEFINITION.fullmatch(text)
    if found is None:
        raise MacroTrouble("`#define` needs a name", "as in `#define LIMIT 10`")
    if found[2] is None:
        return found[1], Macro(None, found[4].strip())
    parameters = tuple(each.strip() for each in found[3].split(",")) if found[3].strip() else ()
    if parameters and parameters[-1] == "...":
        parameters = (*parameters[:-1], _FURTHER)
    if not all(_NAME.fullmatch(each) for each in parameters) or len(set(parameters)) < len(parameters):
        message = f"the parameters of `{found[1]}` are not distinct names"
        raise MacroTrouble(message, "as in `#define EDGE(x, y) edge(x, y)`")
    return found[1], Macro(parameters, found[4].strip())


def expand(text: str, start: int, macros: Mapping[str, Macro], busy: frozenset[str] = frozenset()) -> tuple[str, int]:
    """Expand the macro used at `start`; return the expansion and the position after the use."""
    found = _NAME.match(text, start)
    assert found is not None
    name, end = found[0], found.end()
    macro = macros[name]
    if macro.parameters is None:
        return expanded(macro.body, macros, busy | {name}), end
    opened = re.compile(r"\s*\(").match(text, end)
    if opened is None:
        return name, end
    arguments, end = _arguments(text, opened.end(), name)
    count, expected = len(arguments), f"{len(macro.parameters)}"
    if macro.parameters and macro.parameters[-1] == _FURTHER:
        fixed = len(macro.parameters) - 1
        expected = f"at least {fixed}"
        if count >= fixed:
            arguments[fixed:] = [", ".join(arguments[fixed:])]
    if len(arguments) != len(macro.parameters) and not (not macro.parameters and arguments == [""]):
        message = f"`{name}` takes {expected} arguments, {count} are given"
        raise MacroTrouble(message, f"write `{name}({', '.join(macro.parameters)})`")
    given = dict(zip(macro.parameters, arguments, strict=False))
    full = {key: expanded(value, macros, busy) for key, value in given.items()}
    return expanded(_filled(macro.body, given, full), macros, busy | {name}), end


def expanded(text: str, macros: Mapping[str, Macro], busy: frozenset[str] = frozenset()) -> str:
    """The text with every macro expanded; a macro inside its own expansion is left alone, as in C."""
    made: list[str] = []
    position = length = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        assert found is not None
        piece, position = found[0], found.end()
        if piece in macros and piece not in busy:
            piece, position = expand(text, found.start(), macros, busy)
        made.append(piece)
        length += len(piece)
        if length > LONGEST:
            raise MacroTrouble(f"a macro expands to more than {LONGEST:,} characters", "use relations and rules")
    return "".join(made)


def _arguments(text: str, position: int, name: str) -> tuple[list[str], int]:
    """The arguments of a use, and the position after its parentheses."""
    found: list[str] = [""]
    level = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        assert token is not None
        piece, position = token[0], token.end()
        if piece == ")" and level == 0:
            return [each.strip() for each in found], position
        level += (piece in "([{") - (piece in ")]}") if len(piece) == 1 else 0
        if piece == "," and level == 0:
            found.append("")
        else:
            found[-1] += " " if piece.startswith(("//", "/*")) else piece
    raise MacroTrouble(f"the arguments of `{name}` have no end", "close them with `)`")


def _filled(body: str, given: Mapping[str, str], full: Mapping[str, str]) -> str:
    """The body with its parameters replaced: `#x` by quoted text, those next to `##` unexpanded, others expanded."""
    tokens = [found[0] for found in _TOKEN.finditer(body)]
    made: list[str] = []
    paste = False
    for place, token in enumerate(tokens):
        if token == "##":
            while made and not made[-1].strip():
                made.pop()
            paste = True
            continue
        if paste and not token.strip():
            continue
        if made and made[-1] == "#" and token in given:
            made[-1] = '"' + given[token].replace("\\", "\\\\").replace('"', '\\"') + '"'
            continue
        pasted = paste or next((t for t in tokens[place + 1 :] if t.strip()), "") == "##"
        made.append((given if pasted else full).get(token, token))
        paste = False
    return "".join(made)


# ---- conditions after `#if` ----------------------------------------------------------------------------------

_DEFINED = re.compile(r"\bdefined\s*(?:\(\s*([A-Za-z_?][\w?]*)\s*\)|([A-Za-z_?][\w?]*))")
_CONDITION_TOKEN = re.compile(r"\s*(?:([0-9]+)|([A-Za-z_?][\w?]*)|(&&|\|\||[=!<>]=|[-+*/%<>!()]))")
_DEEPEST_CONDITION = 50


def _quotient(a: int, b: int) -> int:
    """The quotient truncated toward zero, as in C."""
    return a // b if (a < 0) == (b < 0) else -(-a // b)


_OPERATORS: tuple[dict[str, Callable[[int, int], int]], ...] = (
    {"||": lambda a, b: int(bool(a or b))},
    {"&&": lambda a, b: int(bool(a and b))},
    {"==": operator.eq, "!=": operator.ne},
    {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge},
    {"+": operator.add, "-": operator.sub},
    {"*": operator.mul, "/": _quotient, "%": lambda a, b: a - b * _quotient(a, b)},
)
"""Operators by precedence, the lowest first."""


class BadCondition(Exception):
    """The text after `#if` is not a condition."""


def holds(text: str, macros: Mapping[str, Macro]) -> bool:
    """Test whether the condition is true; a name that is no macro is 0.

    >>> holds("defined(A) && A > 1", {"A": Macro(None, "2")})
    True
    """
    known = _DEFINED.sub(lambda found: str(int((found[1] or found[2]) in macros)), text)
    return _ConditionReader(expanded(known, macros)).value() != 0


class _ConditionReader:
    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        position = 0
        while text[position:].strip():
            found = _CONDITION_TOKEN.match(text, position)
            if found is None:
                raise BadCondition(f"`{text.strip()[:40]}` is not a condition")
            self._tokens.append("0" if found[2] else found[1] or found[3])
            position = found.end()

    def value(self) -> int:
        value = self._level(0, 0)
        if self._tokens:
            raise BadCondition(f"unexpected `{self._tokens[0]}` in the condition")
        return value

    def _level(self, level: int, depth: int) -> int:
        if level == len(_OPERATORS):
            return self._operand(depth + 1)
        left = self._level(level + 1, depth)
        while self._tokens and self._tokens[0] in _OPERATORS[level]:
            compute = _OPERATORS[level][self._tokens.pop(0)]
            try:
                left = int(compute(left, self._level(level + 1, depth)))
            except ZeroDivisionError:
                raise BadCondition("the condition divides by zero") from None
        return left

    def _operand(self, depth: int) -> int:
        if not self._tokens or depth > _DEEPEST_CONDITION:
            raise BadCondition(
                "the condition ends too early" if depth <= _DEEPEST_CONDITION else "the condition is too deep"
            )
        token = self._tokens.pop(0)
        if token in ("!", "-", "+"):
            value = self._operand(depth + 1)
            return int(not value) if token == "!" else -value if token == "-" else value
        if token == "(":
            value = self._level(0, depth)
            if not self._tokens or self._tokens.pop(0) != ")":
                raise BadCondition("a `)` is missing in the condition")
            return value
        if not token.isdecimal():
            raise BadCondition(f"unexpected `{token}` in the condition")
        return int(token[:30])
