"""One module per maintenance strategy: when it applies, its rules, its stages, what it stores, how it is printed.

In: a checked program in normal form. Out: the rules that compute its changes, in a record that planner and engines
read. Read `strategy` (the record), then `maintenance` with `maintenance_rules`, `counting`, `bf`, `recompute`,
`aggregate`; `production` with `production_rules`; `changes_on_demand` and the strategies without stored views: `rod`,
`epf`, `differencing`, `propagation`.

To add a strategy: a module with a `STRATEGY`, and its name in `names`. Engines implement each `Procedure` once; only a
strategy that runs in a new way needs another one.

`maintenance` generates, for every rule of a view, deletion rules (driven by what was deleted below, in the old state),
rederivation rules (over-deleted rows that still have another derivation in the new state) and insertion rules (driven
by what was inserted below, in the new state). Over-deletion ends before rederivation starts, and insertions are tested
against the new state so far: a row that is over-deleted and derived again is no change. [Staudt & Jarke 1996, section
3.1] `upshot rewrite` prints the rules.

`counting` stores the number of derivations of every row, for views that are not recursive. `recompute` computes all
rows and reports the difference.

`production` compiles every rule into triggers (`strategies/production_rules.py`): delete in the state before, insert
again, insert, with falling priority, stratum by stratum [Ceri & Widom 1994]. The rule processor
(`engine/rule_processor.py`) selects the next rule and its window: net effects per rule, partial order, processing
points. An engine evaluates the conditions and stages their results (`engine/local/components/production.py`,
`engine/spark/rounds/production.py`). Active rules use the same processor (`active/run.py`): one instance lives as long
as the transaction. Each change of a component of views has its own, which ends before the next active rule runs.

Aggregates are views with one row per group; a group is recomputed only if one of its rows changed. Sums and counts are
running totals; the rows of a group are read again only if it loses its extreme value. `auto` chooses, and `explain`
shows why.
"""
