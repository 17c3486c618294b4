"""The interactive session: statements in, what follows from them out."""
