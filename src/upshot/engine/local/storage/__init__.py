"""Tables, indexes and codes.

Rows and Arrow tables in; rows of 64-bit codes in raw memory, and back. Read `codec`, `storage`, `index`.
"""
