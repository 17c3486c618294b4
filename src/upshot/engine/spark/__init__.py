"""The engine on Spark: relations in files at a location, small changes in the driver, the same answers as locally.

Comes in: a Spark session, rule plans, statements. Goes out: exact deltas, rows, DataFrames.
Read `engine`, `attempt`, `installed`; then `storage` (where rows are, and how jobs compute them), `frames` (plans as
DataFrames), `rounds` (how views follow a change), `recursion`, and `demand` (views that are not stored, queries).

Same plans, other joins. The rule plans that the local engine assembles to register programs become DataFrames here
(`frames/rule_frames.py`): the driving change, joins, filters, the head. Where Spark computes a value differently from
the local engine, an Arrow function calls the same Python: the record of a function says which (`values/functions.py`,
`frames/expressions.py`).

Rounds are jobs. A component's propagation is a generator (`rounds/component.py`): it yields requests for frames and
receives their rows. The scheduler (`storage/requests.py`) advances all components of one level of the dependency order
together, puts the frames of all of them into one tagged union, and runs one job. Small answers come back to the driver
as Arrow and are the local relations of the next round; large ones are written as Parquet and counted in the same job.
So the lineage ends with every round. If the last statements on a relation in files had an effect, the next ones are
assumed to have one, too: the rows are looked up in the job of the first round (`storage/statements.py`), and a wrong
assumption costs one more attempt.

Rows are named files (`spark/workspace.py`, `storage/pieces.py`). A set of rows is a list of Parquet files at the
location, a URI that driver and executors reach, and its count. Spark's writers make the files, or the driver does. The
count observed while writing must equal the one in the files, and a reader names every file: a missing one is an error.
No task opens a path that Spark did not give it, and none keeps anything for the next. `spark/preflight.py` proves at
connect that driver and executors read each other's files.

Tables (`storage/table.py`) are such files and a small overlay of added and removed rows in the driver, which is moved
to new files when it outgrows its bound. A commit of a few rows rewrites nothing. Row counts are always known without a
job. Files survive a lost executor: the unit of recovery is the commit attempt, which starts again from the tables.

Small work is done in the driver (`storage/driver_copy.py`). A recursive component, or the demand programs of views that
are not stored, run on a local engine in the driver while their inputs and views fit its memory: no job at all. The
engine follows the tables by their versions, from commit to commit; its open change is accepted or undone once it is
known whether the tables accepted it. A component that outgrows the memory moves to Spark, for good.

Decomposed recursion (`recursion/parts.py`). `plan/pivot.py` looks for a column that every recursive rule passes on
unchanged. If there is one, every derivation keeps its value: the view is partitioned by it, and each partition runs the
whole fixpoint on a local engine inside one job (`recursion/shard.py`); so do deletion and rederivation, for the values
that a change touches. Rows come to a part as Arrow, relations that all parts need whole come with the task. The views
go out as Arrow too, a tagged union that Spark writes by set, with counters of the rows that each part made. Transitive
closure written with two recursive literals is first made linear if that is provably the same
(`rewrite/demand/linearize.py`). `explain` prints the decomposition, or the reason that there is none.

Everything else is rounds of joins on Spark's own shuffle (`rounds/`): recursion without a pivot that the driver cannot
hold, changes of rules, `bf` beyond the driver, which searches for all rows at once and wider from step to step
(`rounds/backward_forward.py`), and demand programs (`demand/demand_rounds.py`): one job for all rules that have
something new to read; gates that cannot reach each other open together (`plan/demand_plans.py`).

Broadcasts and shuffles. The rows that a small change joins are broadcast, since sizes along a rule are not known
beforehand. Spark refuses more than a bound; then the attempt is made again with hints off and adaptive execution on
(`SparkEngine._sending`). While all relations together are a few rows in the driver, a round is one task instead, and
nothing is broadcast or shuffled (`frames/joins.py`), except for joins beyond a dozen: each takes a page of the task's
memory. Classes that PySpark would have Java look up with every column are cached for all sessions of the process
(`spark/session.py`).

Clean-up is explicit. Workspaces record their owner; leftovers of a killed run are removed by the next one.
"""
