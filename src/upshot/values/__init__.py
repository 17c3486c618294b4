"""Records of everything that is built in: one per function, test, comparison and aggregate.

In: nothing but the vocabulary of `core`. Out: records that the checker, the engines, SQL, view updating, the reference
and completion read. Only the oracle (`engine/naive_functions.py`) has tables of its own, to judge this one.

Read `signatures` (kinds of arguments and results), `records` (what a record has), then the tables: `functions`
(operators, bits, and all others by name), `text_functions`, `numeric_functions` (floats and decimals), `conversions`,
`date_functions`, `structures`, `windows`; `conditions` (tests and comparisons), `aggregates`. `inverses` goes back from
a value to arguments, `patterns` matches regular expressions in bounded time and `ecmascript` reads them, `reference`
writes the tables of the documentation.

A new function, test or aggregate is one record in one of the tables, and one line in the oracle's, `FUNCTIONS`, `TESTS`
or `AGGREGATES` of `engine/naive_functions.py`. A test compares the names.
"""
