"""What other Datalogs, Prolog and SQL write and Upshot does not, with what to write instead."""

from __future__ import annotations

Hint = tuple[str, str, str]
"""Slug, message, help."""

_ONE_COLUMN = "use one column per field"

TOKENS: dict[str, Hint] = {
    "==": ("unknown-operator", "`==` is not an operator", "write equality as `=`"),
    "<>": ("unknown-operator", "`<>` is not an operator", "write inequality as `!=`"),
    "=<": ("unknown-operator", "`=<` is not an operator", "write at most as `<=`"),
    ":=": ("unknown-operator", "`:=` is not an operator", "bind a value with `=`"),
    "->": ("unknown-operator", "`->` is not an operator", "write a rule as `head :- body.`"),
    "&&": ("unknown-operator", "`&&` is not an operator", "join literals with `,`"),
    "||": ("unknown-operator", "`||` is not an operator", "separate alternatives with `;`"),
    "\\+": ("unknown-operator", "`\\+` is not an operator", "write negation as `!`"),
    "[": ("unsupported-record", "`[…]` is a record; records are not supported", _ONE_COLUMN),
    "@": ("unsupported-functor", "user functors such as `@f(…)` are not supported", "compute the value before loading"),
    "$": ("unsupported-autoincrement", "the counter `$` is not supported", "number the rows before loading"),
    "#": (
        "unsupported-preprocessor",
        "preprocessor lines are not supported",
        "insert the text, or run the preprocessor first; comments start with `//`",
    ),
}
"""By the token found where another was expected."""

WORDS: dict[str, Hint] = {
    "and": ("unknown-operator", "`and` is not an operator", "join literals with `,`"),
    "or": ("unknown-operator", "`or` is not an operator", "separate alternatives with `;`"),
    "not": ("unknown-operator", "`not` is not an operator", "write negation as `!`"),
    "mod": ("unknown-operator", "`mod` is not an operator", "write the remainder as `%`"),
    "is": ("unknown-operator", "`is` is not an operator", "bind a value with `=`"),
    "if": ("unknown-operator", "`if` is not an operator", "write a rule as `head :- body.`"),
}
"""By the name found where something else was expected."""

FUNCTORS: dict[str, Hint] = {
    "as": ("unsupported-cast", "the type cast `as(…)` is not supported", "use a conversion such as `to_number(…)`"),
    "autoinc": ("unsupported-autoincrement", "`autoinc()` is not supported", "number the rows before loading"),
    "range": ("unsupported-functor", "`range(…)` is not supported", "join with a relation of the numbers"),
    "__ITERATION__": ("unsupported-functor", "`__ITERATION__()` is not supported", "count in a column"),
}
"""By the name of a functor of Soufflé."""

NIL: Hint = ("unsupported-record", "`nil` is a record; records are not supported", _ONE_COLUMN)
COMPONENT: Hint = (
    "unsupported-component",
    "names with a dot belong to components, which are not supported",
    "write the relations and rules of the component with a prefix in their names",
)

DIRECTIVES: dict[str, Hint] = {
    ".comp": ("unsupported-component", "components are not supported", COMPONENT[2]),
    ".init": ("unsupported-component", "components are not supported", COMPONENT[2]),
    ".override": ("unsupported-component", "components are not supported", COMPONENT[2]),
    ".functor": ("unsupported-functor", "user functors are not supported", "compute the value before loading"),
    ".lattice": ("unsupported-lattice", "lattices are not supported", "use `min` or `max` over a relation"),
    ".limitsize": ("unsupported-limitsize", "`.limitsize` is not supported", "limit the relation in its rules"),
    ".include": ("unsupported-preprocessor", "`.include` is not supported", "define the files one after the other"),
    ".once": ("unsupported-preprocessor", "`.once` is not supported", "define each file once"),
}
"""By the directive, known to Soufflé and refused here."""

QUALIFIERS: dict[str, Hint] = {
    "eqrel": (
        "unsupported-eqrel",
        "equivalence relations are not supported",
        "write reflexive, symmetric and transitive rules",
    ),
    "choice": ("unsupported-choice-domain", "`choice-domain` is not supported", "use `min` to pick one row per group"),
}
"""By the word after a declaration."""
