"""The write queue: one thread that changes the database, and what it works on.

Transactions and searches in; commits and realizations out. Read `line`, `writer`, `idempotency`.
"""
