"""Rules, facts and queries as checked clauses.

Syntax trees in; safe clauses with one head and a conjunction of literals out. Read `clause_form`, `safety`,
`clauses`, `facts`, `query`.
"""
