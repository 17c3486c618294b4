"""Rule plans, aggregates and set operations as DataFrames.

Comes in: a plan and the frames that it reads. Goes out: a frame of heads; nothing runs here.
Read `rule_frames`, then `expressions` and `functor_udfs` (values as the local engine computes them), `joins` (set
operations, and joins of a few rows) and `aggregates`.
"""
