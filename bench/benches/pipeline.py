"""B7: a pipeline on Spark, micro-batches of a thousand changes over ten million base rows."""

from __future__ import annotations

from bench.process import Runner
from bench.report import Report, Scale, median, percentile95, ratio, seconds
from bench.tasks import Answer, Task

COLUMNS = ("engine", "work", "load", "batch p50", "p95", "read", "commit", "publish", "file to sink", "Spark jobs")
STEPS = ("read", "record", "publish")
"""The slow steps of a batch; `record` propagates the change and makes it durable."""
CHANGES = 1_000
ROWS, NODES = 10_000_000, 20_000
TARGETS = {("spark", "parquet"): 5.0, ("auto", "parquet"): 20.0, ("auto", "delta"): 10.0}
"""The target ratio of recomputation to a batch, by engine and kind of sinks."""


def pipeline(runner: Runner, scale: Scale) -> Report:
    """B7: against recomputing the views on Spark, with a tuned loop for the recursive one."""
    rows, nodes = (100_000, 2_000) if scale.quick else (scale.rows or ROWS, NODES)
    report = Report(f"B7 pipeline: {CHANGES:,} changes a micro-batch over {rows:,} base rows", COLUMNS)
    for (engine, sinks), bound in TARGETS.items():
        options = {"rows": rows, "nodes": nodes, "changes": CHANGES, "engine": engine, "sinks": sinks}
        options |= {"recompute": True}
        task = Task("pipeline", options=options | {"batches": 5 if scale.quick or engine == "spark" else 15})
        answer = report.ask(runner, "pipeline", task, None)
        if answer is None:
            report.rows.append((engine, runner.ask("pipeline", task).missing, *[""] * 8))
            continue
        work = f"engine={engine}, sinks in {sinks}"
        _rows(report, f"{engine}, {sinks}", answer)
        spent = median(answer.times["batch"])
        cheaper = ratio(answer.figures["recompute"], spent)
        report.at_least(f"{work}: at least {bound:.0f} × cheaper than recomputing on Spark", cheaper, bound)
        processor, anew = median(answer.times["processor"]), answer.figures["recompute processor"]
        report.notes.append(
            f"{work}: {processor:.2f} s of processor time for a batch, {anew:.2f} s to recompute, "
            f"{anew / processor:.1f} × (Python, Java and workers)"
        )
        if (engine, sinks) == ("auto", "parquet"):
            report.at_most("engine=auto: p50 of a batch at most 2 s", spent, 2.0, " s")
    return report


def _rows(report: Report, engine: str, answer: Answer) -> None:
    batch = answer.times["batch"]
    report.rows.append(
        (
            engine,
            f"propagated on {answer.notes.get('engine', engine)}",
            seconds(answer.seconds),
            seconds(median(batch)),
            seconds(percentile95(batch)),
            *(seconds(median(answer.times.get(step, [0.0]))) for step in STEPS),
            seconds(median(answer.times["latency"])),
            f"{answer.figures['jobs']:.0f}",
        )
    )
    report.rows.append(("", "recomputed on Spark", "", seconds(answer.figures["recompute"]), *[""] * 6))
