"""Explanations: strategies, costs, rules and the dependency network.

A database in; text, JSON and pictures out. Read `explain`, `explained_view`, `network`.
"""
