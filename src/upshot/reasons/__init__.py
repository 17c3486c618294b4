"""Explain why a row is there, why it is not, and why that changed.

In: a row and queries of one state. Out: derivations, near misses, causes. Nothing is stored for explanations.

The search goes from the row down. `concrete.py` turns each rule into a query from rows to its instances, and
`search.py` queries all rows of a level at once until the row depends on base facts only: as deep as its derivation is
high. `why.py` uses it; it queries non-linear recursion in layers, views of bounded height by magic sets, and enumerates
all derivations without recursion. `near_misses.py` leaves out as few literals as it can. `changed.py` compares two
states; past ones are restored by undoing base changes in an open transaction that is rolled back
(`database/durable/past_states.py`).
"""
