"""Demand: magic sets, sideways information passing, linear forms of recursion.

A program and a query in; the rules that compute only what the query needs out. Read `sip`, `magic_sets`, `demand`,
`linearize`.
"""
