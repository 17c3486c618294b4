"""Queries and explanations of rows over the current state.

Rule bodies, SQL and rows in; answers, derivations and hypothetical changes out. Read `query`, `sql_answers`, `why`,
`what_if`.
"""
