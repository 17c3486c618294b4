"""Steps of reading that the sources share; none of them is a source.

Files, lines and rows of tables in; the statements of a range, rows that fit the relation, and reasons for those that do
not, out. Read `batch` (what a source returns), `cells` and `fitting` (values and rows as the relation has them), then
what is read: `listing` (files of a folder), `lines` with `envelopes` (statements of NDJSON), `table_rows`; then what is
kept for a replay: `journal`, `staged`.
"""
