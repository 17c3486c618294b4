"""Tables, indexes and codes.

In: rows and Arrow tables. Out: rows of 64-bit codes in raw memory, and back. Read `codec`, `storage`, `index`, `cells`.
"""
