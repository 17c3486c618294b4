"""Subscriptions: the changes of views on their way to followers.

Commits in; server-sent events out. Read `hub`, `selections`, `streams`, `sse`.
"""
