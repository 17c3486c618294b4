"""Notation of other Datalogs, Prolog and SQL that Upshot does not have, each with its replacement."""

from __future__ import annotations

Hint = tuple[str, str, str]
"""Slug, message, help."""

TOKENS: dict[str, Hint] = {
    "==": ("unknown-operator", "`==` is not an operator", "write equality as `=`"),
    "<>": ("unknown-operator", "`<>` is not an operator", "write inequality as `!=`"),
    "=<": ("unknown-operator", "`=<` is not an operator", "write at most as `<=`"),
    ":=": ("unknown-operator", "`:=` is not an operator", "bind a value with `=`"),
    "->": ("unknown-operator", "`->` is not an operator", "write a rule as `head :- body.`"),
    "&&": ("unknown-operator", "`&&` is not an operator", "join literals with `,`"),
    "||": ("unknown-operator", "`||` is not an operator", "separate alternatives with `;`"),
    "\\+": ("unknown-operator", "`\\+` is not an operator", "write negation as `!`"),
    "$": (
        "unsupported-autoincrement",
        "the counter `$` is not supported",
        "number the rows before loading, or count those before",
    ),
    "#": (
        "unsupported-preprocessor",
        "this is no line that the preprocessor knows",
        "known are `#include #define #undef #if #ifdef #ifndef #elif #else #endif #error #pragma #line`, each at the "
        "start of a line; comments start with `//`",
    ),
}
"""By an unexpected token."""

WORDS: dict[str, Hint] = {
    "and": ("unknown-operator", "`and` is not an operator", "join literals with `,`"),
    "or": ("unknown-operator", "`or` is not an operator", "separate alternatives with `;`"),
    "not": ("unknown-operator", "`not` is not an operator", "write negation as `!`"),
    "mod": ("unknown-operator", "`mod` is not an operator", "write the remainder as `%`"),
    "is": ("unknown-operator", "`is` is not an operator", "bind a value with `=`"),
    "if": ("unknown-operator", "`if` is not an operator", "write a rule as `head :- body.`"),
}
"""By an unexpected name."""

FUNCTORS: dict[str, Hint] = {
    "autoinc": (
        "unsupported-autoincrement",
        "`autoinc()` is not supported: a view must not depend on the order in which its rows were found",
        "number the rows before loading, or count the preceding ones: `N = count : { r(Y), Y < X }`",
    ),
    "__ITERATION__": ("unsupported-functor", "`__ITERATION__()` is not supported", "count in a column"),
}
"""By the name of a functor of Soufflé."""


DIRECTIVES: dict[str, Hint] = {
    ".lattice": (
        "unsupported-lattice",
        "lattices of your own are not supported",
        "declare the column as `d: min number`, or with `max`, `any` or `all`",
    ),
    ".include": ("misplaced-include", "`.include` must begin a line", "write it on a line of its own"),
    ".once": ("misplaced-include", "`.once` must begin a line", "write it on a line of its own"),
}
"""By the directive of Soufflé that Upshot does not support."""

EVERY_RELATION: Hint = (
    "unsupported-every-relation",
    "`*` for all relations is not supported",
    "name the relations, separated by commas: `.output a, b`",
)
"""For `*` in place of the names of relations in `.input` and `.output`."""

DELTA: Hint = (
    "unsupported-delta",
    "`debug_delta` is not supported: a relation has rows, and no rounds",
    "a transaction reports its inserted and deleted rows: read the changes of the relation",
)
"""For `=` after the name of a declared relation."""

USER_AGGREGATE: Hint = (
    "unsupported-aggregate",
    "`@@` is not supported",
    "declare `.functor f(x: number): number fold` and write `@f x : { … }`",
)
"""For a second `@`."""

SET_LATTICES: dict[str, Hint] = dict.fromkeys(
    ("intersection", "set"),
    (
        "unsupported-lattice",
        "a column cannot keep an intersection of sets, or a set as one value",
        "write `union`: a row for each member, the rows of one group are its set",
    ),
)
"""By the word before the type of a column."""
