"""Small work in the driver: a local engine that holds relations whole and follows their tables from commit to commit.

Comes in: tables, and the change that is open. Goes out: pieces, or nothing if the driver's memory is too small.
Read `copy`, then `recursion` and `demand`.
"""
