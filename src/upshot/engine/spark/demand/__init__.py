"""Views that are not stored, and queries: demand programs and single plans.

Comes in: settled tables, a query. Goes out: net changes of views, rows.
Read `on_demand`, then `in_driver` and `demand_rounds` (two ways to run a demand program); `queries` for queries over
stored rows.
"""
