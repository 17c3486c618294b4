"""Explain why a row is present, why it is absent, and why that changed.

In: a row and queries of one state. Out: derivations, near misses, causes. Nothing is stored for explanations.

The search goes from the row down. `concrete.py` turns each rule into a query from rows to its instances, and
`search.py` queries all rows of a level at once until the row depends on base facts only. `why.py` uses it; it queries
non-linear recursion in layers, and enumerates all derivations without recursion. `near_misses.py` omits as few literals
as possible. `changed.py` compares two states; past ones are restored by undoing base changes in an open transaction
that is rolled back (`database/durable/past_states.py`).
"""
