"""Access control: tokens, sessions, scopes, host names, and what errors may disclose.

Read `tokens`, `scopes`, `sessions`.
"""
