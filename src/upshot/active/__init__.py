"""Active rules: run by a transaction, before its commit and after it.

Checked form. `check/active/active_rules.py` gives each rule its triggers, the window tables that it reads, clauses that
find its instances, and the columns that identify them. The condition of a strict rule without an event becomes a hidden
view: its inserted rows are the instances that become true, at the cost of any view. A triggering graph
(`check/active/triggering.py`) warns of cycles and of orders that matter.

One open change. `active/run.py` never commits in between. The engine keeps the transaction open (`reopen`, `propagate`,
`query_open`); each propagation returns net deltas since its beginning, and their difference to the propagation before
goes to the processor, which keeps a window for each rule. Rollback is the engine's, whatever the rules have done.

Causes. `active/turn_log.py` keeps the base changes at the turns of rules. `database/rules/firing_causes.py` searches in
these states when the cause of a firing is read.

Outbox. Firings with `coupling=after` become tasks (`active/tasks.py`) in the commit record, and
`database/rules/outbox.py` runs them: a change completes its task in its own commit record, a call when it has returned.
The guarantees: docs/explanation/rules.md#after-a-crash.
"""
