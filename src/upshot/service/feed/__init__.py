"""Subscriptions: commits in; server-sent events to followers out.

Read `hub`, `selections`, `streams`, `sse`; `standing` has the live queries, `past` reads the log, `commits` is the list
of recent commits.
"""
