"""SQL to the same tree as Datalog text: read `program.py` for definitions and `queries/query.py` for queries.

To add a function: its spelling `sql=(…)` in its record in `upshot/values` (`text_functions`, `numeric_functions`, …;
`aggregates` for an aggregate, `windows` for a window function); only a special form needs code in `expressions`.

Nothing here is imported before SQL is met: sqlglot takes longer to load than a small program takes to run.

Branches. sqlglot gives the tree; a SELECT becomes a branch (`sql/translation.py`): literals that must hold and a value
for each column. Columns that are equal become one variable. An expression is a term, or one for each of several cases
that exclude each other (CASE, COALESCE; `sql/expressions/values.py`), and a condition is asked for in one of four ways,
true, false, not true, not false (`sql/expressions/conditions.py`), so that no negation ever meets NULL unawares.

Views of its own. What a branch cannot be is a view `part_of` the one that is defined: outer joins, queries in FROM,
groups, and what EXISTS and IN look into, by the values that they use of the query around. A join never finds NULL, so a
column that can be NULL on both sides is stored with a mark (`sql/queries/presence.py`, `sql/queries/grouping.py`).
Aggregates run over all columns of their rows, which is what makes them count a bag over sets.
"""
