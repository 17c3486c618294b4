"""Spark jobs, as few as possible: requests for sets of rows go in, pieces come out.

Read `requests`, then `slots` (rows of several sets in one frame) and `waves` (computations that share their jobs).
"""
