"""The engine on Spark: relations in files at a location, small changes in the driver, the same answers as locally.

Comes in: a Spark session, rule plans, statements. Goes out: exact deltas, rows, DataFrames.
Read `engine`, `attempt`, `installed`; then `storage` and `tables` (where rows are), `jobs` (how they are computed),
`rounds` (how views follow a change), `recursion` with `driver` and `decomposed`, `demand`; `frames` turns plans into
DataFrames.

Same plans, other joins. The rule plans that the local engine assembles to register programs become DataFrames here
(`rule_frames.py`): the driving change, joins, filters, the head. Values keep their meaning: what Spark computes
differently from the local engine goes through an Arrow function that calls the same Python: the record of a function
says which (`values/functions.py`, `expressions.py`).

Rounds are jobs. A component's propagation is a generator (`component.py`): it yields the frames it needs evaluated and
receives their rows. The scheduler (`jobs/requests.py`) advances all components of one level of the dependency order
together, lays the frames of all of them into one tagged union, and runs one job. Small answers come back to the driver
as Arrow and are the local relations of the next round; large ones are written as Parquet and counted in the same job.
So the lineage ends with every round. Of statements on rows in files it is assumed that they have an effect, once those
before had one; what was there is looked up in the job of the first round (`tables/statements.py`), and an assumption
that was wrong costs one more attempt.

Rows are named files (`spark/workspace.py`, `storage/pieces.py`). A set of rows is a list of Parquet files at the
location, a URI that driver and executors reach, and its count. Spark's writers make them, or the driver does; the count
that was observed while writing must be the one that the files tell, and a reader names every file, so that a missing
one is an error. No task opens a path that Spark did not hand it, and none keeps anything for the next.
`spark/preflight.py` proves at connect that both sides see what the other writes.

Tables (`tables/table.py`) are such files and a small overlay of added and removed rows in the driver, net, folded into
new files when it outgrows its bound. A commit of a few rows rewrites nothing. Row counts are always known without a
job. What is in files survives a lost executor: the unit of recovery is the commit attempt, which starts again from the
tables.

Small work is the driver's (`driver/`). A recursive component, or the demand programs of views that are not stored, runs
on a local engine in the driver while what it reads and its views fit the driver's memory: no job at all. The engine
follows the tables by their versions, from commit to commit; its open change is accepted or undone once it is known
whether the tables took it. What outgrows the memory goes to Spark, for good.

Decomposed recursion (`decomposed/`). `plan/pivot.py` looks for a column that every recursive rule hands on unchanged.
If there is one, no derivation leaves its value: the view is partitioned by it and each partition runs the whole
fixpoint on a local engine inside one job; so do deletion and rederivation, for the values a change touches. Rows come
to a part as Arrow, relations that all parts need whole with the task; the views go out as Arrow too, a tagged union
that Spark writes by set, with counters that say what each part made. Transitive closure written with two recursive
literals is first made linear where that is provably the same (`rewrite/demand/linearize.py`). `explain` says what was
decomposed, on what, or why not.

Everything else is rounds of joins on Spark's own shuffle (`rounds/`): recursion without a pivot that the driver cannot
hold, changes of rules, `bf` beyond the driver, which searches all rows at once and wider from step to step
(`backward_forward.py`), and demand programs (`demand/demand_rounds.py`): one job for all rules that have something new
to read; gates that cannot reach each other open together (`plan/demand_plans.py`).

Sending and shuffling. What a small change joins is broadcast, since sizes along a rule are not known beforehand; Spark
refuses more than a bound, and the attempt is made again with hints off and adaptive execution on
(`SparkEngine._sending`). While all relations together are a few rows in the driver, a round is one task instead, and
nothing is sent or shuffled (`one_task.py`), but for joins beyond a dozen: each takes a page of the task's memory.
Classes that PySpark would have Java look for with every column are remembered, for all sessions of the process
(`java_classes.py`).

Clean-up is explicit. Workspaces carry their owner; what a killed run left is removed by the next one.
"""
