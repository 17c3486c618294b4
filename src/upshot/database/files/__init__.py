"""Tables and rows of files, frames and other libraries.

Parquet, CSV, Delta, Soufflé files, Arrow tables, pandas and Spark frames in; rows of relations out, and back. Read
`given_rows`, `arrow_tables`, `table_files`.
"""
