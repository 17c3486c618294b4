"""Databases: programs and transactions in; answers, exact changes and subscriptions out.

Read `database` (the public class) with `connect`; then the two ways through: `program/compile.py` (a text becomes a
plan) and `commit` (a transaction becomes a version), with `state`, `transaction`, `changes` and `constraints`.
`queries`, `live` and `watch` answer and follow, `durable` keeps commits in a store, `rules` runs actions, `files`
reads and writes, `explain` describes. `realize` with `search_arguments`, `tried_changes` and `realization` is view
updating. `placement` chooses the engine.
"""
