"""Translate SQL to the tree of Datalog programs: `program.py` for definitions, `queries/query.py` for queries.

To add a function: its spelling `sql=(…)` in its record in `upshot/values` (`text_functions`, `numeric_functions`, …;
`aggregates` for an aggregate, `windows` for a window function); only a special form needs code in `expressions`.

This package is imported only if there is SQL: sqlglot takes longer to load than a small program takes to run.

Branches. sqlglot parses; a SELECT becomes a branch (`sql/translation.py`): literals that must hold and a value for each
column. Columns that are equal become one variable. An expression is a term, or one term for each of several disjoint
cases (CASE, COALESCE; `sql/expressions/values.py`). A condition is translated to the formula for its being true, false,
not true or not false (`sql/expressions/conditions.py`), so that negation is correct for NULL.

Auxiliary views. Outer joins, queries in FROM, groups, and the queries of EXISTS and IN cannot be part of a branch. They
become views `part_of` the defined view, whose columns include the values of the outer query that they use. NULL joins
with nothing, so a column that can be NULL on both sides is stored with a mark (`sql/queries/presence.py`,
`sql/queries/grouping.py`). Aggregates range over all columns of their rows, so that they count a bag over sets.
"""
