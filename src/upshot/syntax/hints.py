"""What other Datalogs, Prolog and SQL write and Upshot does not, with what to write instead."""

from __future__ import annotations

Hint = tuple[str, str, str]
"""Slug, message, help."""

_ONE_COLUMN = "use one column per field"

TOKENS: dict[str, Hint] = {
    "==": ("unknown-operator", "`==` is no operator", "equality is written `=`"),
    "<>": ("unknown-operator", "`<>` is no operator", "inequality is written `!=`"),
    "=<": ("unknown-operator", "`=<` is no operator", "at most is written `<=`"),
    ":=": ("unknown-operator", "`:=` is no operator", "a value is bound with `=`"),
    "->": ("unknown-operator", "`->` is no operator", "a rule is written `head :- body.`"),
    "&&": ("unknown-operator", "`&&` is no operator", "literals are joined with `,`"),
    "||": ("unknown-operator", "`||` is no operator", "alternatives are separated with `;`"),
    "\\+": ("unknown-operator", "`\\+` is no operator", "negation is written `!`"),
    "[": ("unsupported-record", "`[…]` is a record, and Upshot has no records", _ONE_COLUMN),
    "@": ("unsupported-functor", "user functors such as `@f(…)` are not supported", "compute the value before loading"),
    "$": ("unsupported-autoincrement", "the counter `$` is not supported", "number the rows before loading"),
    "#": (
        "unsupported-preprocessor",
        "preprocessor lines are not supported",
        "put the text in place, or run the preprocessor first; comments start with `//`",
    ),
}
"""By the token found where another was expected."""

WORDS: dict[str, Hint] = {
    "and": ("unknown-operator", "`and` is no operator", "literals are joined with `,`"),
    "or": ("unknown-operator", "`or` is no operator", "alternatives are separated with `;`"),
    "not": ("unknown-operator", "`not` is no operator", "negation is written `!`"),
    "mod": ("unknown-operator", "`mod` is no operator", "the remainder is written `%`"),
    "is": ("unknown-operator", "`is` is no operator", "a value is bound with `=`"),
    "if": ("unknown-operator", "`if` is no operator", "a rule is written `head :- body.`"),
}
"""By the name found where something else was expected."""

FUNCTORS: dict[str, Hint] = {
    "as": ("unsupported-cast", "the type cast `as(…)` is not supported", "use a conversion such as `to_number(…)`"),
    "autoinc": ("unsupported-autoincrement", "`autoinc()` is not supported", "number the rows before loading"),
    "range": ("unsupported-functor", "`range(…)` is not supported", "join with a relation that holds the numbers"),
    "__ITERATION__": ("unsupported-functor", "`__ITERATION__()` is not supported", "count in a column"),
}
"""By the name of a functor of Soufflé."""

NIL: Hint = ("unsupported-record", "`nil` is a record, and Upshot has no records", _ONE_COLUMN)
COMPONENT: Hint = (
    "unsupported-component",
    "names with a dot belong to components, which Upshot does not have",
    "write the component's relations and rules out, with a prefix in their names",
)

DIRECTIVES: dict[str, Hint] = {
    ".comp": ("unsupported-component", "components are not supported", COMPONENT[2]),
    ".init": ("unsupported-component", "components are not supported", COMPONENT[2]),
    ".override": ("unsupported-component", "components are not supported", COMPONENT[2]),
    ".functor": ("unsupported-functor", "user functors are not supported", "compute the value before loading"),
    ".lattice": ("unsupported-lattice", "lattices are not supported", "use `min` or `max` over a relation"),
    ".limitsize": ("unsupported-limitsize", "`.limitsize` is not supported", "bound the relation in its rules"),
    ".include": ("unsupported-preprocessor", "`.include` is not supported", "define the files one after the other"),
    ".once": ("unsupported-preprocessor", "`.once` is not supported", "define each file once"),
}
"""By the directive, known to Soufflé and refused here."""

QUALIFIERS: dict[str, Hint] = {
    "eqrel": (
        "unsupported-eqrel",
        "equivalence relations are not supported",
        "write the rules: reflexive, symmetric and transitive",
    ),
    "choice": ("unsupported-choice-domain", "`choice-domain` is not supported", "use `min` to pick one row per group"),
}
"""By the word after a declaration."""
