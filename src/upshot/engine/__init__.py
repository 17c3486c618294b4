"""Engines: they store relations and propagate changes through rule plans.

In: a `ProgramPlan` and base changes. Out: exact deltas of every view, rows, work counters. `local` runs in this
process, `spark` on DataFrames; both implement the protocol in `database/engines.py`. Read `limits` and `work` (bounds
and counters), `rule_processor` (the next production rule, for both engines), then `local` or `spark`. `naive` and the
other `naive_` modules are the oracle: slow, and independent of the engines.
"""
