"""One batch of a pipeline, from positions of sources to the committed record.

Read `batch`, `positions`, `ranges`, `record`, `quarantine`.
"""
