"""Parse SQL: split a text at semicolons, and parse each statement by sqlglot, in PostgreSQL's dialect or else Spark's.

A line between statements that begins with a dot is a directive, as in Datalog: `.input edge`, `.view path policy=full`.
sqlglot accepts a superfluous comma, a keyword such as GROUP as the name of a table, and `IN ()`, and its messages name
its classes and tokens. These errors are found and reported here.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from upshot.core.diagnostic import Diagnostic
from upshot.core.errors import ProgramError
from upshot.core.span import Source, Span
from upshot.sql.trigger_reading import is_trigger, trigger_form
from upshot.sql.trouble import Refused, Statement, unreadable
from upshot.syntax import parse
from upshot.syntax.ast import Item

_SPELLINGS = ("postgres", "spark")
_PIECE = re.compile(
    r"""'(?:[^']|'')*+' | "[^"]*+" | `[^`]*+` | --[^\n]*+ | /\*.*?\*/
    | (?P<directive>
        ^[ \t]*+\.(?:input|output|printsize|view|deny|rule|activate|deactivate|type|pragma|functor)\b[^\n]*+)
    | [^'"`/\n-]++ | .""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
"""Strings, names and comments, in which a line may begin with a dot, and directives."""
_DATA = {
    TokenType.INSERT: "INSERT", TokenType.UPDATE: "UPDATE", TokenType.DELETE: "DELETE", TokenType.MERGE: "MERGE",
    TokenType.TRUNCATE: "TRUNCATE",
}  # fmt: skip


@dataclass(slots=True)
class Script:
    """The statements of a text, as far as it could be parsed."""

    source: Source
    statements: list[Statement]
    directives: tuple[Item, ...]
    mistakes: list[Diagnostic]


def read_script(text: str, name: str) -> Script:
    """All statements of a text, and all syntax errors."""
    source = Source(name, text)
    script = Script(source, [], (), [])
    blanked, directives = _without_directives(text)
    if directives.strip():
        try:
            script.directives = parse(directives, name).items
        except ProgramError as error:
            script.mistakes += error.diagnostics
    try:
        tokens, dialect = _tokens(source, blanked)
    except Refused as refused:
        script.mistakes.append(refused.diagnostic)
        return script
    for chunk in _chunks(tokens):
        try:
            script.statements.append(_statement(source, blanked, chunk, dialect))
        except Refused as refused:
            script.mistakes.append(refused.diagnostic)
    return script


def _without_directives(text: str) -> tuple[str, str]:
    """The text without its directives, and the directives alone; blanks replace the rest."""
    sql, other, place = [], [], 0
    for found in _PIECE.finditer(text):
        if found["directive"] is None:
            continue
        before, line = text[place : found.start()], found[0]
        sql += [before, _blank(line)]
        other += [_blank(before), line]
        place = found.end()
    return "".join((*sql, text[place:])), "".join((*other, _blank(text[place:])))


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


# ---- tokens -----------------------------------------------------------------------------------


def _tokens(source: Source, text: str) -> tuple[list[Token], str]:
    spelling = "spark" if "`" in re.sub(r"'(?:[^']|'')*'|--[^\n]*", "", text) else "postgres"
    try:
        return _with_joined_columns(_with_plain_joins(Dialect.get_or_raise(spelling).tokenize(text))), spelling
    except TokenError:
        raise Refused(unclosed(source, list(_PIECE.finditer(text)))) from None
    except Exception as error:  # noqa: BLE001 - whatever the parser meets, the user gets a diagnostic
        raise Refused(unreadable(Span(source, 0, len(text)), error)) from None


def _with_plain_joins(tokens: Sequence[Token]) -> list[Token]:
    """The tokens with INNER before a bare JOIN, and parentheses around TRUE after ON: the tree does not distinguish a
    bare JOIN from a comma, nor, in Spark's dialect, a missing condition from TRUE."""
    made: list[Token] = []
    for token in tokens:
        before = made[-1].token_type if made else None
        if token.token_type is TokenType.JOIN and before not in _JOIN_WORDS:
            made.append(_like(token, TokenType.INNER, "INNER"))
        if token.token_type is TokenType.TRUE and before is TokenType.ON:
            made += (_like(token, TokenType.L_PAREN, "("), token, _like(token, TokenType.R_PAREN, ")"))
            continue
        made.append(token)
    return made


def _with_joined_columns(tokens: Sequence[Token]) -> list[Token]:
    """The tokens with the columns of CYCLE and SEARCH as one name, `a, b`: sqlglot parses only one column there."""
    made: list[Token] = []
    place = 0
    while place < len(tokens):
        made.append(tokens[place])
        place += 1
        words = [token.text.upper() for token in made[-2:]]
        if words[-1] != "CYCLE" and words != ["FIRST", "BY"]:
            continue
        end = place
        while end + 2 < len(tokens) and tokens[end + 1].token_type is TokenType.COMMA:
            end += 2
        if end > place and tokens[end + 1 :] and tokens[end + 1].text.upper() == "SET":
            names = (
                t.text if t.token_type is TokenType.IDENTIFIER else t.text.lower() for t in tokens[place : end + 1 : 2]
            )
            joined = _like(tokens[place], TokenType.IDENTIFIER, JOINED.join(names))
            made.append(joined)
            place = end + 1
    return made


JOINED = ", "
"""The separator between the columns of CYCLE and SEARCH; no name contains it."""
_JOIN_WORDS = {
    TokenType.INNER, TokenType.LEFT, TokenType.RIGHT, TokenType.FULL, TokenType.OUTER, TokenType.CROSS,
    TokenType.NATURAL, TokenType.SEMI, TokenType.ANTI, TokenType.ASOF,
}  # fmt: skip


def _like(token: Token, type: TokenType, text: str) -> Token:
    return Token(type, text, line=token.line, col=token.col, start=token.start, end=token.end)


def is_unconditional(join: exp.Join) -> bool:
    """Test whether the join has no condition."""
    on = join.args.get("on")
    return (on is None or isinstance(on, exp.Boolean)) and not join.args.get("using")


def _chunks(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    chunk: list[Token] = []
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON and not _is_open_block(chunk):
            if chunk:
                yield chunk
            chunk = []
        else:
            chunk.append(token)
    if chunk:
        yield chunk


def _is_open_block(chunk: Sequence[Token]) -> bool:
    """Test whether a trigger has begun a block that has not ended."""
    begun = is_trigger(chunk) and any(token.token_type is TokenType.BEGIN for token in chunk)
    return begun and chunk[-1].text.upper() != "END"


def _statement(source: Source, text: str, tokens: list[Token], dialect: str) -> Statement:
    span = Span(source, tokens[0].start, tokens[-1].end + 1)
    words = [token.text.upper() for token in tokens[:4]]
    if tokens[0].token_type in _DATA:
        raise Refused(
            Diagnostic(
                "sql-unsupported", f"{_DATA[tokens[0].token_type]} is not supported here", place_of(source, tokens[0]),
                help="insert rows in a transaction: `with db.transaction() as tx: tx.insert(…)`",
            )
        )  # fmt: skip
    check_tokens(source, tokens)
    if words[:2] == ["CREATE", "ASSERTION"]:
        return _assertion(source, text, tokens, dialect, span)
    if words[0] == "TABLE" and len(tokens) > 1:
        every = ((TokenType.SELECT, "SELECT"), (TokenType.STAR, "*"), (TokenType.FROM, "FROM"))
        tokens = [*(_like(tokens[0], type, text) for type, text in every), *tokens[1:]]
    if is_trigger(tokens):
        form = trigger_form(source, tokens)
        tree, spelling = (form.name, dialect) if form.function else _tree(source, text, form.body, dialect)
        return Statement("trigger", tree, span, spelling, trigger=form)
    is_query = tokens[0].token_type in (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN, TokenType.VALUES)
    if not is_query and not _is_create(words):
        raise Refused(
            Diagnostic(
                "sql-unsupported", f"`{' '.join(token.text for token in tokens[:2])} …` is not supported",
                place_of(source, tokens[0]),
                help="use CREATE TABLE, CREATE [OR REPLACE] [MATERIALIZED] VIEW, CREATE ASSERTION, CREATE TRIGGER and "
                "queries",
            )
        )  # fmt: skip
    tree, spelling = _tree(source, text, _with_versions(tokens), dialect)
    return Statement("query" if is_query else "create", tree, span, spelling)


def _with_versions(tokens: list[Token]) -> list[Token]:
    """The tokens with `VERSION AS OF 5` for `AS OF 5` after a table: a number or a parameter never follows an alias."""
    found: list[Token] = []
    for place, token in enumerate(tokens):
        behind = tokens[place + 1 : place + 3]
        is_version = (
            token.token_type is TokenType.ALIAS
            and len(behind) == 2
            and behind[0].text.upper() == "OF"
            and behind[1].token_type in (TokenType.NUMBER, TokenType.COLON, TokenType.PARAMETER)
        )
        if is_version and found and found[-1].text.upper() not in ("VERSION", "TIMESTAMP", "SYSTEM_TIME"):
            found.append(_like(token, TokenType.VAR, "VERSION"))
        found.append(token)
    return found


def _is_create(words: list[str]) -> bool:
    if words[0] != "CREATE":
        return False
    rest = [word for word in words[1:] if word not in ("OR", "REPLACE", "MATERIALIZED")]
    return bool(rest) and rest[0] in ("TABLE", "VIEW")


def _assertion(source: Source, text: str, tokens: list[Token], dialect: str, span: Span) -> Statement:
    """`CREATE ASSERTION name CHECK (condition)`"""
    good = len(tokens) > 6 and tokens[3].text.upper() == "CHECK" and tokens[4].token_type is TokenType.L_PAREN
    if not good or tokens[-1].token_type is not TokenType.R_PAREN:
        raise Refused(
            Diagnostic("sql-syntax", "an assertion needs a condition in parentheses", span,
                       help="write CREATE ASSERTION name CHECK (NOT EXISTS (SELECT …))")
        )  # fmt: skip
    tree, spelling = _tree(source, text, tokens[5:-1], dialect, into=exp.Condition)
    name = exp.to_identifier(tokens[2].text, quoted=tokens[2].token_type is TokenType.IDENTIFIER)
    name.meta.update(start=tokens[2].start, end=tokens[2].end)
    return Statement("assertion", tree, span, spelling, name)


def _tree(
    source: Source, text: str, tokens: list[Token], dialect: str, into: type[exp.Condition] | None = None
) -> tuple[exp.Expression, str]:
    first: Refused | None = None
    for spelling in dict.fromkeys((dialect, *_SPELLINGS)):
        parser = Dialect.get_or_raise(spelling).parser()
        try:
            with _silenced():
                found = parser.parse_into(into, tokens, text) if into is not None else parser.parse(tokens, text)
                if found and isinstance(found[0], exp.Command):
                    # The part after AS shows the place of the error.
                    words = [token.text.upper() for token in tokens]
                    parser.parse(tokens[words.index("AS") + 1 if "AS" in words else 0 :], text)
        except ParseError as error:
            first = first or Refused(in_our_words(source, error, tokens))
            continue
        except RecursionError:
            raise Refused(
                Diagnostic(
                    "too-deep", "the statement is nested too deeply", Span(source, tokens[0].start, tokens[0].end),
                    help="move a part of it to a view or a query in WITH",
                )
            ) from None  # fmt: skip
        except Exception as error:  # noqa: BLE001 - whatever the parser meets, the user gets a diagnostic
            first = first or Refused(unreadable(Span(source, tokens[0].start, tokens[-1].end + 1), error))
            continue
        if len(found) == 1 and found[0] is not None and not isinstance(found[0], exp.Command):
            check_names(source, found[0], tokens)
            return _with_plain_negations(found[0]), spelling
    raise first or Refused(
        Diagnostic("sql-syntax", "cannot parse the statement", place_of(source, tokens[0]), help="check its spelling")
    )


@contextmanager
def _silenced() -> Iterator[None]:
    """Suppress sqlglot's warnings, which concern its fallbacks and not the text."""
    log = logging.getLogger("sqlglot")
    log.addFilter(_nothing)
    try:
        yield
    finally:
        log.removeFilter(_nothing)


def _nothing(_: logging.LogRecord) -> bool:
    return False


def _with_plain_negations(tree: exp.Expr) -> exp.Expression:
    """The tree with NOT around negated conditions: `x IS NOT NULL` and `x NOT LIKE 'a'` have it inside."""
    root = exp.Paren(this=tree)
    for node in list(root.walk()):
        if node.args.get("negate"):
            node.set("negate", None)
            whole = node.parent if isinstance(node.parent, exp.Escape) else node
            holder, key, index = whole.parent, whole.arg_key, whole.index
            assert holder is not None
            assert key is not None
            holder.set(key, exp.Not(this=whole), index)
    found: exp.Expression = root.this
    found.pop()
    return found


_READABLE = "Upshot reads the SQL of PostgreSQL and Spark"
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
"""Keywords that can be the name of a column only after AS, and that of a table only in quotes."""


def unclosed(source: Source, pieces: Sequence[re.Match[str]]) -> Diagnostic:
    """The diagnostic of an unclosed quote or comment, or of an unknown character."""
    for piece in pieces:
        if piece[0] in ("'", '"', "`") or (piece[0] == "/" and source.text[piece.end() : piece.end() + 1] == "*"):
            what = "comment" if piece[0] == "/" else "text" if piece[0] == "'" else "name in quotes"
            end = "`*/`" if piece[0] == "/" else f"a quote, {piece[0]}"
            until = source.text.find("\n", piece.start())
            span = Span(source, piece.start(), until if until >= 0 else len(source.text))
            return Diagnostic("sql-syntax", f"this {what} does not end", span, "begins here", f"close it with {end}")
    return Diagnostic(
        "sql-syntax", "the text has characters that are no SQL", Span(source, 0, len(source.text)), "somewhere in here",
        _READABLE,
    )  # fmt: skip


def check_tokens(source: Source, tokens: Sequence[Token]) -> None:
    """Refuse superfluous commas, an empty IN, and a view without AS."""
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
    """Refuse a keyword as the name of a table or column without AS: it begins an incomplete clause."""
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
    """The diagnostic of an error of the parser."""
    found = error.errors[0] if error.errors else {}
    described = str(found.get("description") or "").rstrip(".")
    at = next((t for t in tokens if (t.line, t.col) == (found.get("line"), found.get("col"))), tokens[-1])
    message, cure = f"the statement cannot be parsed at `{at.text}`", f"check what stands before it; {_READABLE}"
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
"""sqlglot's messages, with the message and the help that replace them. `…` is the word at which it stopped."""


def place_of(source: Source, token: Token) -> Span:
    return Span(source, token.start, token.end + 1)


def _refuse(source: Source, token: Token, message: str, help: str) -> None:
    raise Refused(Diagnostic("sql-syntax", message, place_of(source, token), "here", help))
