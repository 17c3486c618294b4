"""Queries, over stored relations and over views that are not stored.

A query and its parameters in; rows out. Read `answers`, `queries`, `demand_run`, `on_demand`.
"""
