"""Sets of rows of known size, in the driver or as named Parquet files of a workspace.

Comes in: rows in the driver, files that Spark or the driver wrote. Goes out: DataFrames over exactly these rows.
Read `pieces`, then `contents`. The files themselves are the business of `upshot.spark.workspace`.
"""
