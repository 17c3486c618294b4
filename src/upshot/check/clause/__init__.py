"""Rules, facts and queries as checked clauses.

Input: syntax trees. Output: safe clauses with one head and a conjunction of literals. Read `clause_form`, `safety`,
`clauses`, `facts`, `query`.
"""
