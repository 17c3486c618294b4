"""Programs for other database systems: views that those maintain themselves.

Checked programs in; scripts out. `postgres` writes the script, `postgres_rules` a query for each production rule,
`postgres_terms` names, types, values and conditions. Read them in this order.
"""
