"""Rule plans, aggregates and set operations as DataFrames.

Comes in: a plan and the frames of what it reads. Goes out: a frame of heads; nothing runs here.
Read `rule_frames`, then `expressions` and `functor_udfs` (values as the local engine computes them), `set_frames`,
`aggregates`, and `one_task` (frames over a few rows).
"""
