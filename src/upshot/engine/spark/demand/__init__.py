"""Views that are not stored, and queries: demand programs and single plans.

Comes in: settled tables, a query. Goes out: net changes of views, rows.
Read `on_demand`, `demand_rounds`; `queries` for queries over stored rows.
"""
