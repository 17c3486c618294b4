"""Recursion in parts that never meet: one Spark job for a whole fixpoint, however many rounds it takes.

Comes in: rows of seeds and views by pivot, and relations that all parts need whole. Goes out: the views, or their
changes. Read `shard` (what a Python worker does with a part), then `parts` (what the driver does).
"""
