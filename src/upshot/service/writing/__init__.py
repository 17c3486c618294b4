"""The write queue: one thread that changes the database, and what it works on.

Transactions and searches in; commits and realizations out. Read `writer` (the queue and its thread), `idempotency`
(repeated requests), `searches` and `fixes` (realizations between two commits).
"""
