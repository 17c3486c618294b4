"""Views that follow a change of their inputs, one round of joins at a time.

Comes in: a component's plan and settled tables below it. Goes out: its own tables, settled. Read `component`, then
`derivations` (from derived heads to a change: as a set, with counts, by groups); then the strategies that differ,
`production` and `backward_forward`.
"""
