"""SQL queries as rules.

sqlglot trees in; views of our own dialect out. Read `query`, `from_clause`, `grouping`, `subqueries`.
"""
