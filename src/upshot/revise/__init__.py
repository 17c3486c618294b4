"""The other direction: which base changes make derived facts true or false."""
