"""Engines: they store relations and propagate changes through rule plans.

Comes in: a `ProgramPlan` and base changes. Goes out: exact deltas of every view, rows, work counters. `local` runs in
this process, `spark` on DataFrames; both implement the protocol in `database/engines.py`. Read `limits` and `work`
(bounds and counters), `rule_processor` with `production_schedule` (the next production rule, for both engines), then
`local` or `spark`. `naive` and the other `naive_` modules are the oracle: slow, and independent of the engines.
"""
