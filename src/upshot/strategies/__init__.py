"""One module a maintenance strategy: when it applies, its rules, its stages, what it stores, how it is printed.

A checked program in normal form comes in; the rules that compute its changes go out, with all that planner and engines
need to know of the strategy. Read `strategy` (the record), then `maintenance` with `maintenance_rules`, `counting`,
`bf`, `recompute`, `aggregate`; `production` with `production_rules`; `changes_on_demand` and the strategies without
stored views: `rod`, `epf`, `differencing`, `propagation`.

To add one: a module with a `STRATEGY`, and its name in `names`. An engine has a part of its own for each `Procedure`;
only a strategy that runs in a new way needs another.

`maintenance` generates, for every rule of a view, deletion rules (driven by what was deleted below, in the old state),
rederivation rules (over-deleted rows that still have another derivation in the new state) and insertion rules (driven
by what was inserted below, in the new state). Over-deletion ends before rederivation starts, and insertions are tested
against the new state so far: a row over-deleted and derived again reports no change. [Staudt & Jarke 1996, section 3.1]
`upshot rewrite` prints the rules.

`counting` keeps the number of derivations of every row, for views that are not
recursive. `recompute` starts over and reports the difference.

`production` compiles every rule into triggers
(`strategies/production.py`): delete in the state before, insert again, insert, with falling priority, stratum by
stratum [Ceri & Widom 1994]. Which rule has its turn, and the window it sees, is decided without any engine
(`engine/rule_processor.py`): net effects per rule, partial order, processing points. An engine evaluates conditions and
stages what they find (`engine/local/components/production.py`, `engine/spark/rounds/production.py`). Rules of users
take their turns from the same processor (`active/run.py`): one instance lives as long as the transaction, and each wave
of a component of views is one of its own, run to its end before a rule of a user has its turn.

Aggregates are views of
their own, one row per group; a group is touched only if one of its rows changed; sums and counts are running totals,
and only when a group loses its extreme value are its rows looked at again. `auto` chooses, and `explain` says why.
"""
