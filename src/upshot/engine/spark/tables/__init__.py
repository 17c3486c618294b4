"""Relations of the engine: their committed rows, an open change to them, rows that go in and out.

Comes in: statements with rows of callers, saved rows of a store. Goes out: settled tables, rows handed to users.
Read `table`, `statements`; then `input_rows`, `spark_rows`.
"""
