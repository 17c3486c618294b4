"""The built-in functions, tests, comparisons and aggregates, one record each.

Input: nothing but `core`. Output: records that the checker, the engines, SQL, view updating, the reference and
completion read. Only the oracle (`engine/naive_functions.py`) has its own tables, to check these.

Read `signatures` (kinds of arguments and results), `records` (the fields of a record), then the tables: `functions`
(operators, bits, and all functions by name), `text_functions`, `numeric_functions` (floats and decimals),
`conversions`, `date_functions`, `structures`, `windows`; `conditions` (tests and comparisons), `aggregates`. `inverses`
computes arguments from a value, `patterns` matches regular expressions in bounded time, `ecmascript` translates them,
`reference` generates the tables of the documentation.

A new function, test or aggregate is one record in one of the tables, and one line in the oracle's, `FUNCTIONS`, `TESTS`
or `AGGREGATES` of `engine/naive_functions.py`. A test compares the names.
"""
