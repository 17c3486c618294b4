"""A client that keeps a copy of a view of a served database exactly current."""
