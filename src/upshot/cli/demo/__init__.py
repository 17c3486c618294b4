"""The demonstrations of `upshot demo`: programs, generated data and transactions in; printed changes and times out.

Read `story` (what a demo consists of), `telling` (how it runs), then one demo, `permissions` first. To add one: a
module with its program, and its entry in `cli.commands.demo`.
"""
