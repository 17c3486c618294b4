"""Macros of the preprocessor: their definitions, and the text that a use of one stands for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_NAME = re.compile(r"[A-Za-z_?][A-Za-z0-9_?]*+")
_DEFINITION = re.compile(r"\s*([A-Za-z_?][A-Za-z0-9_?]*+)(\(([^()]*)\))?(.*)", re.DOTALL)
_TOKEN = re.compile(r'"(?:\\[^\n]|[^"\\\n])*+"?|//[^\n]*+|/\*(?s:.*?)\*/|[A-Za-z_?][A-Za-z0-9_?]*+|\s++|##|(?s:.)')
_REST = "__VA_ARGS__"
LONGEST = 1_000_000
"""Characters that one use may expand to."""


class MacroTrouble(Exception):
    """A definition or a use that cannot be carried out; `help` says what to write."""

    def __init__(self, message: str, help: str) -> None:
        super().__init__(message)
        self.help = help


@dataclass(frozen=True, slots=True)
class Macro:
    """`parameters` is None for a macro that is used without parentheses; the last one takes all further arguments if it
    is `__VA_ARGS__`, which is written `...`."""

    parameters: tuple[str, ...] | None
    body: str


def definition(text: str) -> tuple[str, Macro]:
    """The macro that stands behind `#define`.

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
        parameters = (*parameters[:-1], _REST)
    if not all(_NAME.fullmatch(each) for each in parameters) or len(set(parameters)) < len(parameters):
        message = f"the parameters of `{found[1]}` are not distinct names"
        raise MacroTrouble(message, "as in `#define EDGE(x, y) edge(x, y)`")
    return found[1], Macro(parameters, found[4].strip())


def expand(text: str, start: int, macros: Mapping[str, Macro], busy: frozenset[str] = frozenset()) -> tuple[str, int]:
    """Expand the macro used at `start`; return the text and the position behind its use."""
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
    count, wanted = len(arguments), f"{len(macro.parameters)}"
    if macro.parameters and macro.parameters[-1] == _REST:
        fixed = len(macro.parameters) - 1
        wanted = f"at least {fixed}"
        if count >= fixed:
            arguments[fixed:] = [", ".join(arguments[fixed:])]
    if len(arguments) != len(macro.parameters) and not (not macro.parameters and arguments == [""]):
        message = f"`{name}` takes {wanted} arguments, {count} are given"
        raise MacroTrouble(message, f"write `{name}({', '.join(macro.parameters)})`")
    given = dict(zip(macro.parameters, arguments, strict=False))
    full = {key: expanded(value, macros, busy) for key, value in given.items()}
    return expanded(_filled(macro.body, given, full), macros, busy | {name}), end


def expanded(text: str, macros: Mapping[str, Macro], busy: frozenset[str] = frozenset()) -> str:
    """The text with every macro in it expanded; one that is being expanded stays as it is, as in C."""
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
    """The texts between the parentheses of a use, and the place behind them."""
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
    """The body with its parameters replaced: `#x` as quoted text, those beside `##` as written, others expanded."""
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
