"""SQL expressions and conditions as terms and formulas.

sqlglot trees in; typed values with their NULL cases out. Read `values`, `expressions`, `conditions`.
To add a function: its spelling `sql=(…)` in its record in `upshot/values`; only a special form needs code here
(`texts`, `dates`, `arithmetic`).
"""
