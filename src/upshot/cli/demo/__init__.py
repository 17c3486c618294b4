"""The demonstrations of `upshot demo`: programs, generated data and transactions in; printed changes and times out.

Read `story` (the parts of a demo), `run` (running it), then one demo, `permissions` first. To add one: a module with
its program, and its entry in `cli.commands.demo`.
"""
