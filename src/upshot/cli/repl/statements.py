"""Split input into statements: commands, queries, changes and pieces of a program."""

from __future__ import annotations

import re
from dataclasses import dataclass

from upshot.sql.either import is_sql


@dataclass(frozen=True, slots=True)
class Command:
    """`:name argument`"""

    name: str
    argument: str


@dataclass(frozen=True, slots=True)
class QueryText:
    """`? body`, or a query in SQL."""

    body: str


@dataclass(frozen=True, slots=True)
class ChangeText:
    """`+edge(1, 2), -edge(2, 3).`: a sign and the text of an atom for each fact, one transaction."""

    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ProgramText:
    """Declarations, rules, facts, directives, in Datalog or SQL."""

    text: str


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A statement without an end."""

    text: str


Statement = Command | QueryText | ChangeText | ProgramText | Unfinished

BARE_WORDS = {"help": "help", "?": "help", "quit": "quit", "exit": "quit"}
"""Words that work as commands without the colon, for new users."""

# Not `:- body`, `: { body }` or `: type)`: a line of a rule or a declaration may begin with these.
_COMMAND_LINE = re.compile(r"\s*:[A-Za-z][A-Za-z-]*(\s.*)?")


_QUERY_WORD = re.compile(r"(?:select|with|values)\b", re.IGNORECASE)


class Input:
    """Collects lines until a statement is complete. Commands, queries and directives end with their line, definitions
    in SQL with a semicolon, all other statements with a period. A command on a new line ends an incomplete one."""

    def __init__(self) -> None:
        self._text = ""

    @property
    def waiting(self) -> bool:
        """Test whether a statement is incomplete."""
        return bool(_skip_blank(self._text) < len(self._text))

    def feed(self, line: str) -> list[Statement]:
        """Add a line; return the statements that it completes."""
        found: list[Statement] = []
        if not self.waiting and line.strip() in BARE_WORDS:
            return [Command(BARE_WORDS[line.strip()], "")]
        if _COMMAND_LINE.fullmatch(line):
            found += self.finish()
        self._text += line + "\n"
        while (end := _end(self._text)) is not None:
            found.append(_statement(self._text[:end]))
            self._text = self._text[end:]
        return found

    def finish(self) -> list[Statement]:
        """End the input; return the incomplete statement, if there is one."""
        rest, self._text = self._text, ""
        start = _skip_blank(rest)
        return [Unfinished(rest[start:].rstrip())] if start < len(rest) else []

    def clear(self) -> None:
        self._text = ""


_TOKEN = re.compile(
    r"""
    (?P<blank>\s+|//[^\n]*(?=\n)|/\*.*?\*/)
    |(?P<text>"(?:\\.|[^"\\\n])*")
    |(?P<number>\d+\.\d+)
    |(?P<open>[({\[])
    |(?P<close>[)}\]])
    |(?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)

_SQL_TOKEN = re.compile(
    r"""
    (?P<blank>\s+|--[^\n]*(?=\n)|/\*.*?\*/)
    |(?P<text>(?<!\w)[eE]'(?:\\.|''|[^'\\])*'|'(?:''|[^'])*'|"(?:""|[^"])*")
    |(?P<open>[(])
    |(?P<close>[)])
    |(?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)


def _tokens(text: str, start: int, token: re.Pattern[str] = _TOKEN) -> list[tuple[str, str, int]]:
    return [(match.lastgroup or "", match[0], match.end()) for match in token.finditer(text, start)]


def _skip_blank(text: str) -> int:
    start = 0
    for kind, _, end in _tokens(text, start):
        if kind != "blank":
            break
        start = end
    return start


def _end(text: str) -> int | None:
    """The end of the first statement of the text, None if it is incomplete."""
    start = _skip_blank(text)
    rest = text[start:]
    if not rest:
        return None
    if rest.startswith(":"):
        return _line_end(text, start)
    if rest.startswith("?") or _is_sql_query(rest):
        token, mark = (_SQL_TOKEN, ";") if is_sql(rest.removeprefix("?")) else (_TOKEN, ".")
        ends = (_balanced_line_end(text, start, token), _stop(text, start, mark, token))
        return min((end for end in ends if end is not None), default=None)
    if rest[0].isalpha() and is_sql(rest):
        return _stop(text, start, ";", _SQL_TOKEN)
    if re.match(r"\.(?!rule\b|deny\b)[a-z]", rest) or re.match(r"\.deny\s+\w+\s+\w+\s*=", rest):
        return _balanced_line_end(text, start)
    return _stop(text, start + rest.startswith("."), ".")


def _is_sql_query(text: str) -> bool:
    """Test whether the text begins as a SQL query does, without `?`."""
    return _QUERY_WORD.match(text) is not None and is_sql(text)


def _line_end(text: str, start: int) -> int | None:
    position = text.find("\n", start)
    return None if position < 0 else position + 1


def _balanced_line_end(text: str, start: int, token: re.Pattern[str] = _TOKEN) -> int | None:
    """The end of the first line at which all brackets are closed and no comma or semicolon is last; or of the first
    empty line."""
    depth, last = 0, ""
    for kind, part, end in _tokens(text, start, token):
        depth += (kind == "open") - (kind == "close")
        complete = depth <= 0 and last not in (",", ";")
        if kind == "blank" and (part.count("\n") > 1 or (complete and "\n" in part)):
            return end
        if kind != "blank":
            last = part
    return None


def _stop(text: str, start: int, mark: str, token: re.Pattern[str] = _TOKEN) -> int | None:
    """The position after the first period, or semicolon of SQL, outside texts, numbers and comments. Brackets do not
    count: a missing closing bracket must not swallow all later input."""
    for kind, part, end in _tokens(text, start, token):
        if kind == "other" and part == mark:
            return end
    return None


def _statement(text: str) -> Statement:
    rest = text[_skip_blank(text) :].strip()
    if rest.startswith(":"):
        name, _, argument = rest[1:].strip().partition(" ")
        return Command(name, argument.strip())
    if rest.startswith("?"):
        return QueryText(rest[1:].removeprefix("-").strip())
    if _is_sql_query(rest):
        return QueryText(rest)
    if rest.startswith(("+", "-")):
        return ChangeText(signed_facts(rest))
    return ProgramText(rest)


def signed_facts(text: str) -> tuple[tuple[str, str], ...]:
    """The facts of a change. A fact without a sign has the sign of the previous one."""
    parts, depth, current = [], 0, ""
    for kind, token, _ in _tokens(text.rstrip().removesuffix("."), 0):
        depth += (kind == "open") - (kind == "close")
        if kind == "other" and token == "," and depth <= 0:
            parts.append(current)
            current = ""
        else:
            current += token
    sign, facts = "+", []
    for part in (*parts, current):
        atom = part.strip()
        if atom.startswith(("+", "-")):
            sign, atom = atom[0], atom[1:].strip()
        facts.append((sign, atom))
    return tuple(facts)
