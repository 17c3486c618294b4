"""The form of a statement: mistakes that sqlglot reads without a word, and the words for those that it reports.

sqlglot skips a comma too many, takes a word such as GROUP for the name of a table, and reads `IN ()`. Its own messages
name its classes and tokens.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token, TokenType

from upshot.core.diagnostic import Diagnostic
from upshot.core.span import Source, Span
from upshot.sql.trouble import Refused

_SPELLINGS = "Upshot reads the SQL of PostgreSQL and Spark"
_CLAUSES = {
    TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT,
    TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT, TokenType.QUALIFY, TokenType.ON, TokenType.ALIAS,
}  # fmt: skip
_OPENING = {TokenType.L_PAREN, TokenType.COMMA, TokenType.SELECT, TokenType.DISTINCT, *_CLAUSES} - {TokenType.ALIAS}
_CLOSING = {TokenType.R_PAREN, TokenType.COMMA, *_CLAUSES}
_RESERVED = {
    "ALL", "AND", "AS", "ASC", "BETWEEN", "BY", "CASE", "CREATE", "CROSS", "DESC", "DISTINCT", "ELSE", "END",
    "EXCEPT", "FETCH", "FOR", "FROM", "FULL", "GROUP", "HAVING", "IN", "INNER", "INTERSECT", "INTO", "IS", "JOIN",
    "LATERAL", "LEFT", "LIKE", "LIMIT", "NATURAL", "NOT", "NULL", "OFFSET", "ON", "OR", "ORDER", "OUTER", "QUALIFY",
    "RIGHT", "SELECT", "TABLE", "THEN", "UNION", "UNIQUE", "USING", "VALUES", "WHEN", "WHERE", "WINDOW", "WITH",
}  # fmt: skip
"""Words that need AS before them to be the name of a column, and quotes to be that of a table."""


def unclosed(source: Source, pieces: Sequence[re.Match[str]]) -> Diagnostic:
    """The diagnostic of a text with a quote or a comment that does not end, or with a character that has no meaning."""
    for piece in pieces:
        if piece[0] in ("'", '"', "`") or (piece[0] == "/" and source.text[piece.end() : piece.end() + 1] == "*"):
            what = "comment" if piece[0] == "/" else "text" if piece[0] == "'" else "name in quotes"
            end = "`*/`" if piece[0] == "/" else f"a quote, {piece[0]}"
            until = source.text.find("\n", piece.start())
            span = Span(source, piece.start(), until if until >= 0 else len(source.text))
            return Diagnostic("sql-syntax", f"this {what} does not end", span, "begins here", f"close it with {end}")
    return Diagnostic(
        "sql-syntax", "the text has characters that are no SQL", Span(source, 0, len(source.text)), "somewhere in here",
        _SPELLINGS,
    )  # fmt: skip


def check_tokens(source: Source, tokens: Sequence[Token]) -> None:
    """Refuse commas with nothing to separate, an empty IN, and a view without AS."""
    types = [token.token_type for token in tokens]
    for place, token in enumerate(tokens):
        before = types[place - 1] if place else None
        after = types[place + 1] if place + 1 < len(types) else None
        if token.token_type is TokenType.COMMA and (before in _OPENING or after is None or after in _CLOSING):
            _refuse(
                source, token, "there is nothing to separate by this comma", "remove the comma, or add what is missing"
            )
        if (
            token.token_type is TokenType.IN
            and after is TokenType.L_PAREN
            and types[place + 2 :][:1] == [TokenType.R_PAREN]
        ):
            _refuse(
                source,
                token,
                "the list of IN is empty",
                "name at least one value; a condition that never holds is FALSE",
            )
    if TokenType.VIEW in types[1:4]:
        first = next((place for place, type in enumerate(types) if type in (TokenType.SELECT, TokenType.WITH)), None)
        if first is not None and TokenType.ALIAS not in types[:first]:
            _refuse(
                source,
                tokens[first],
                "AS is missing before the query of the view",
                "write CREATE VIEW name AS SELECT …",
            )


def check_names(source: Source, tree: exp.Expr, tokens: Sequence[Token]) -> None:
    """Refuse a reserved word that names a table or column without AS: it is a clause that is not complete."""
    places = {token.start: place for place, token in enumerate(tokens)}
    for node in tree.find_all(exp.Alias, exp.TableAlias):
        name = node.args.get("alias") if isinstance(node, exp.Alias) else node.this
        if not isinstance(name, exp.Identifier) or name.quoted or name.name.upper() not in _RESERVED:
            continue
        place = places.get(name.meta.get("start", -1))
        if place and tokens[place - 1].token_type is not TokenType.ALIAS:
            word = name.name.upper()
            cure = f'write {word} BY …, or "{name.name}" for a name' if word in ("GROUP", "ORDER") else (
                f'complete the clause, or write AS "{name.name}" for a name'
            )  # fmt: skip
            _refuse(source, tokens[place], f"{word} is not complete", cure)


def in_our_words(source: Source, error: ParseError, tokens: Sequence[Token]) -> Diagnostic:
    """The diagnostic of what the parser reports."""
    found = error.errors[0] if error.errors else {}
    described = str(found.get("description") or "").rstrip(".")
    at = next((t for t in tokens if (t.line, t.col) == (found.get("line"), found.get("col"))), tokens[-1])
    message, cure = f"the statement cannot be parsed at `{at.text}`", f"check what stands before it; {_SPELLINGS}"
    for pattern, words, help in _WORDS:
        if (match := re.match(pattern, described)) is not None:
            message, cure = match.expand(words).replace("…", at.text), help
            break
    return Diagnostic("sql-syntax", message, place_of(source, at), "here", cure)


_WORDS = (
    (r"Expected table name", "the name of a table is missing at `…`", "name a table or a view"),
    (r"Expect(?:ing|ed) ([()\[\]{}>])", r"`\1` is missing at `…`",
     "close every parenthesis, and separate values by commas"),
    (r"Expected END after CASE", "the END of CASE is missing", "write CASE WHEN condition THEN value ELSE value END"),
    (r"Expected (?i:type)", "the name of a type is missing at `…`", "write CAST(x AS BIGINT), or another type"),
    (r"Failed to parse any statement following CTE", "no query follows WITH at `…`",
     "write WITH name AS (SELECT …) SELECT …; CYCLE and SEARCH stand behind the last of its queries"),
    (r"Invalid expression / Unexpected token", "`…` is not expected here",
     "remove it, or write what is missing before it: a comma, an operator, AS"),
    (r"Required argument|.*<class", "something is missing at `…`", "complete the expression or the clause"),
)  # fmt: skip
"""Of sqlglot's messages, what they mean and what to do. `…` is the word at which it stopped."""


def place_of(source: Source, token: Token) -> Span:
    return Span(source, token.start, token.end + 1)


def _refuse(source: Source, token: Token, message: str, help: str) -> None:
    raise Refused(Diagnostic("sql-syntax", message, place_of(source, token), "here", help))
