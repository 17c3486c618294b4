"""The engine on Spark: relations in files at a location, small changes in the driver, the same answers as locally.

Comes in: a Spark session, rule plans, statements. Goes out: exact deltas, rows, DataFrames.
Read `engine`, `attempt`, `installed`; then `storage` and `tables` (where rows are), `jobs` (how they are computed),
`rounds` (how views follow a change), `recursion` with `driver` and `decomposed`, `demand`; `frames` turns plans into
DataFrames.
"""
