"""SQL expressions and conditions as terms and formulas.

Input: sqlglot trees. Output: typed values with their NULL cases. Read `values`, `expressions`, `conditions`.
To add a function: its spelling `sql=(…)` in its record in `upshot/values`; only a special form needs code here
(`texts`, `dates`, `arithmetic`).
"""
