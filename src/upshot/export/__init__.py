"""Programs for other database systems, which then maintain the views.

Checked programs in; scripts out. Read `postgres` (the script), `postgres_rules` (a query for each production rule),
`postgres_terms` (names, types, values and conditions).
"""
