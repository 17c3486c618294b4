"""The write queue and the one thread that changes the database.

Transactions and searches in; commits and realizations out. Read `writer` (the queue and its thread), `idempotency`
(repeated requests), `searches` and `fixes` (searches for realizations between commits).
"""
