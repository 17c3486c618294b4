"""Sets of rows in the driver or as Parquet files, the jobs that compute them, and the tables that they make up.

Comes in: statements with rows of callers, saved rows of a store, requests for frames. Goes out: settled tables, rows of
users. Read `pieces`, `requests` (jobs; its `Slots` are rows of several sets in one frame), `table`, `statements`; then
`input_rows`, `spark_rows`, and `driver_copy`. `upshot.spark.workspace` manages the files themselves.
"""
