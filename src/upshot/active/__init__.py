"""Active rules: what a transaction sets off, before it is committed and after.

Checked into questions. `check/active/active_rules.py` makes of each rule what the run needs: triggers, the window
tables it reads, clauses that find its instances, the columns that tell them apart. The condition of a strict rule
without an event becomes a hidden view, so that what becomes true is its inserted rows, at the price of any view; a
triggering graph (`check/active/triggering.py`) warns of cycles and of orders that matter.

One open change. `active/run.py` never commits in between. The engine keeps the transaction open (`reopen`, `propagate`,
`query_open`), each propagation gives net deltas since its beginning, and the difference to the one before is told to
the processor, which keeps a window for each rule. Undoing is the engine's rollback, whatever the rules have done.

Causes. `active/turn_log.py` keeps the base changes at the turns of rules, in which `database/rules/firing_causes.py`
searches for the cause of a firing when somebody reads it.

Outbox. Firings with `coupling=after` become tasks (`active/tasks.py`) in the record of the commit, and
`database/rules/outbox.py` carries them out: a change strikes itself off in its own record, a call after it has
returned. What that guarantees: docs/explanation/rules.md#after-a-crash.
"""
