"""Spark jobs, as few as possible: requests for sets of rows go in, pieces come out.

Read `requests` (also of computations that share their jobs), then `slots` (rows of several sets in one frame).
"""
