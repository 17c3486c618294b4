"""Views that follow a change of what they read, one round of joins at a time.

Comes in: a component's plan and settled tables below it. Goes out: its own tables, settled. Read `component`,
`derivations`; then the strategies that differ: `counts`, `groups`, `production`, `backward_forward`, and `screening`,
which finds changes that no rule can match.
"""
