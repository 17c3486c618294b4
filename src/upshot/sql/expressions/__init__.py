"""SQL expressions and conditions as terms and formulas.

sqlglot trees in; typed values with their NULL cases out. Read `values`, `expressions`, `conditions`.
"""
