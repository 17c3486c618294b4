"""SQL queries as rules.

Input: sqlglot trees. Output: rules of views. Read `query`, `from_clause`, `grouping`, `subqueries`.
"""
