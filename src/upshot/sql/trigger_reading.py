"""Parse `CREATE TRIGGER`: event, relation, transition tables, and the statement that it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from upshot.core.diagnostic import Diagnostic
from upshot.core.span import Source, Span
from upshot.sql.trouble import Refused

_FORM = (
    "CREATE TRIGGER name AFTER INSERT ON r REFERENCING NEW TABLE AS n FOR EACH STATEMENT INSERT INTO s SELECT … FROM n"
)
_ROWS = "write REFERENCING NEW TABLE AS n FOR EACH STATEMENT, and select from n: it has all rows of the transaction"
_ONE_EACH = "write one trigger for each"
EVENTS = {"INSERT": "insert", "DELETE": "delete", "UPDATE": "update"}


@dataclass(slots=True)
class TriggerForm:
    """`event` is insert, delete or update of `table`; `tables` are the names of the transition tables, by `OLD` and
    `NEW`; `function` is called, or else `body` are the tokens of a statement."""

    name: exp.Identifier
    event: str
    table: exp.Identifier
    tables: dict[str, exp.Identifier] = field(default_factory=dict)
    function: exp.Identifier | None = None
    body: list[Token] = field(default_factory=list)


def is_trigger(tokens: Sequence[Token]) -> bool:
    """Test whether a statement is the definition of a trigger."""
    words = [token.text.upper() for token in tokens[:5]]
    return words[:1] == ["CREATE"] and "TRIGGER" in words


def trigger_form(source: Source, tokens: list[Token]) -> TriggerForm:
    """Parse a trigger; unsupported clauses are refused by name."""
    return _Reading(source, tokens).form()


class _Reading:
    """A recursive-descent parser over the tokens of one statement."""

    def __init__(self, source: Source, tokens: list[Token]) -> None:
        self._source, self._tokens, self._at = source, tokens, 0

    def form(self) -> TriggerForm:
        self._take("CREATE")
        if self._skip("OR"):
            self._take("REPLACE")
        if self._word() == "CONSTRAINT":
            self._unsupported("a constraint trigger", "use CREATE ASSERTION, or a trigger without CONSTRAINT")
        self._take("TRIGGER")
        name = self._name()
        event = self._event()
        self._take("ON")
        form = TriggerForm(name, event, self._name())
        if self._skip("REFERENCING"):
            while self._word() in ("OLD", "NEW"):
                self._transition_table(form)
        self._level()
        self._body(form)
        return form

    def _event(self) -> str:
        if self._word() in ("BEFORE", "INSTEAD"):
            self._unsupported(f"a trigger {self._word()} an event", "write AFTER; to reject rows, use CREATE ASSERTION")
        self._take("AFTER")
        if self._word() == "TRUNCATE":
            self._unsupported("AFTER TRUNCATE", "write AFTER DELETE: it gets all deleted rows")
        if self._word() not in EVENTS:
            self._expected("INSERT, DELETE or UPDATE")
        event = EVENTS[self._take()]
        if self._word() == "OF":
            self._unsupported("UPDATE OF columns", "compare the columns of OLD TABLE and NEW TABLE in WHERE")
        if self._word() == "OR":
            self._unsupported("a trigger of several events", _ONE_EACH)
        return event

    def _transition_table(self, form: TriggerForm) -> None:
        age = self._take()
        if self._word() != "TABLE":
            self._unsupported(f"{age} of a single row", _ROWS)
        if {"insert": "OLD", "delete": "NEW"}.get(form.event) == age:
            words = f"{'an insertion' if age == 'OLD' else 'a deletion'} has no {age} TABLE"
            self._fail("sql-syntax", words, "name the other table, or use AFTER UPDATE")
        self._take("TABLE")
        self._skip("AS")
        form.tables[age] = self._name()

    def _level(self) -> None:
        if self._skip("FOR"):
            self._skip("EACH")
            if self._word() == "ROW":
                self._unsupported("a row-level trigger", _ROWS)
            self._take("STATEMENT")
        if self._word() == "WHEN":
            self._unsupported("WHEN of a trigger", "put the condition into the WHERE of its statement")

    def _body(self, form: TriggerForm) -> None:
        if self._skip("EXECUTE"):
            if self._word() not in ("FUNCTION", "PROCEDURE"):
                self._expected("FUNCTION")
            self._take()
            form.function = self._name()
            self._take("(")
            if self._word() != ")":
                self._unsupported("an argument of a trigger's function", "the function gets the columns of each row")
            self._take(")")
            if self._at < len(self._tokens):
                self._expected("the end of the statement")
            return
        form.body = self._tokens[self._at :]
        if self._skip("BEGIN"):
            self._skip("ATOMIC")
            form.body = self._block()
        if not form.body or form.body[0].text.upper() not in ("INSERT", "DELETE"):
            self._expected("INSERT INTO … SELECT …, DELETE FROM … or EXECUTE FUNCTION name()")

    def _block(self) -> list[Token]:
        """The one statement between BEGIN and END."""
        rest = self._tokens[self._at :]
        if not rest or rest[-1].text.upper() != "END":
            self._at = len(self._tokens)
            self._expected("END")
        statement = rest[:-1]
        if statement and statement[-1].token_type is TokenType.SEMICOLON:
            statement.pop()
        for place, token in enumerate(statement):
            if token.token_type is TokenType.SEMICOLON:
                self._at += place
                self._unsupported("a trigger of several statements", _ONE_EACH)
        return statement

    # ---- tokens -------------------------------------------------------------------------------------

    def _word(self) -> str:
        return self._tokens[self._at].text.upper() if self._at < len(self._tokens) else ""

    def _skip(self, word: str) -> bool:
        found = self._word() == word
        self._at += found
        return found

    def _take(self, word: str = "") -> str:
        found = self._word()
        if word and found != word:
            self._expected(word)
        self._at += 1
        return found

    def _name(self) -> exp.Identifier:
        if self._at >= len(self._tokens) or not self._word()[:1].replace("_", "a").isalpha():
            self._expected("a name")
        token = self._tokens[self._at]
        found = exp.to_identifier(token.text, quoted=token.token_type is TokenType.IDENTIFIER)
        found.meta.update(start=token.start, end=token.end)
        self._at += 1
        if self._word() == ".":
            self._fail("sql-name", "schemas are not supported", "write the name alone")
        return found

    def _expected(self, what: str) -> NoReturn:
        self._fail("sql-syntax", f"a trigger has {what} here", f"write {_FORM}")

    def _unsupported(self, what: str, help: str) -> NoReturn:
        self._fail("sql-unsupported", f"{what} is not supported", help)

    def _fail(self, slug: str, message: str, help: str) -> NoReturn:
        token = self._tokens[min(self._at, len(self._tokens) - 1)]
        raise Refused(Diagnostic(slug, message, Span(self._source, token.start, token.end + 1), "here", help))
