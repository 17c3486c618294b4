"""Evaluate only the rows that queries need: magic sets, sideways information passing, linear forms of recursion.

In: a program and a query. Out: rules for exactly the rows that the query needs. Read `sip` (join order inside a body),
`demand` (rules and gates), `magic_sets` (queries), `demand_listing` (printing); then `linearize`, `partial_evaluation`,
`partial_views` and `lift_parameters` (live queries), `request_rules` (view updating).
"""
