"""Ten million view tuples, loaded and maintained within 4 GiB, with keys of any type."""

from __future__ import annotations

from bench.process import Runner
from bench.report import Report, Scale, mebibytes, median, seconds
from bench.tasks import Graph, Task

TEN_MILLION = (125_000, 375_000)
GIBIBYTE = 2**30


def ten_million(runner: Runner, scale: Scale) -> Report:
    """The peak of the whole process: interpreter, packages, input, load and changes."""
    measures = tuple(m // 10 for m in TEN_MILLION) if scale.quick else TEN_MILLION
    columns = ("work", "contender", "load", "tuples", "peak of process", "bytes/tuple", "delete", "insert")
    report = Report("Memory: ten million tuples, maintained", columns)
    for form in ("integer", "text", "ternary"):
        graph = Graph("blocks", measures, form)
        answer = report.ask(runner, "upshot", Task("changes", graph, {"edges": 50}), graph.closure_size())
        if answer is None:
            continue
        middle = [seconds(median(answer.times[kind])) for kind in ("delete", "insert")]
        figures = (seconds(answer.seconds), f"{answer.size:,}", mebibytes(answer.peak), f"{answer.bytes_per_tuple:.0f}")
        report.rows.append((str(graph), "upshot", *figures, *middle))
        words = f"{form} keys, {answer.size:,} tuples: the whole process inside 4 GiB"
        report.at_most(words, answer.peak / GIBIBYTE, 4.0, " GiB")
    return report
