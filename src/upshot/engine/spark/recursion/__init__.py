"""Recursive components: in the driver, in parts that never meet, or, where neither is possible, by rounds of joins.

Comes in: a component and the tables that it reads. Goes out: its views, or their changes. Read `recursion` (the choice,
and the work in the driver), then `parts` (one Spark job for a whole fixpoint) and `shard` (one part in a worker).
"""
