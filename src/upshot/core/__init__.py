"""The vocabulary of all packages; nothing here imports another package of Upshot.

Output: types, schemas, rows, errors and their texts. Read `types` and `schema` (columns and
relations), `rows` and `row_order` (sets of rows as users receive them), `span`, `diagnostic` and `errors` (mistakes and
their places), then the texts of values: `fact_text` (programs), `field_text` (files), `json_values`, `arrow_schema`,
`structures` (records). `search_bounds` has the bounds of view updating, with their defaults. `lazy_exports` lets
packages import their modules when they are used.
"""
