"""Steps of reading that the sources share; none of them is a source.

Comes in: files, lines and rows of tables. Goes out: the statements of a range, rows that fit the relation, and reasons
for those that do not. Read `cells` and `fitting` (values and rows as the relation has them), then `listing` (files of a
folder) and `lines` with `envelopes` (statements of NDJSON); then `journal` and `staged` (data kept for a replay).
"""
