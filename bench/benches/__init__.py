"""The benchmarks by name, in the order they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bench.benches.activations import hundred_thousand_activations
from bench.benches.changes import changes_follow_the_change, changes_small
from bench.benches.frames import loads_from_frames
from bench.benches.inventory import inventory
from bench.benches.kept_answers import kept_answers
from bench.benches.large import many_rows
from bench.benches.live_queries import hundred_thousand_followers
from bench.benches.load import closure, same_generation
from bench.benches.memory import ten_million
from bench.benches.on_demand import eighty_constraints, without_stored_views
from bench.benches.pipeline import pipeline
from bench.benches.programs import programs
from bench.benches.realizations import view_updates
from bench.benches.shortest_paths import shortest_paths
from bench.benches.spark import spark_recursion
from bench.benches.store import durable_commits
from bench.benches.subscribers import thousand_subscribers
from bench.benches.tpch import tpch_refreshes
from bench.process import Runner
from bench.report import Report, Scale

BENCHES: Mapping[str, Callable[[Runner, Scale], Report]] = {
    "b1": closure,
    "b2": same_generation,
    "b3": changes_small,
    "b4": changes_follow_the_change,
    "b5": without_stored_views,
    "b6": spark_recursion,
    "b7": pipeline,
    "b8": inventory,
    "b9": eighty_constraints,
    "b10": thousand_subscribers,
    "b11": view_updates,
    "b12": programs,
    "b13": hundred_thousand_followers,
    "b14": tpch_refreshes,
    "b15": many_rows,
    "b16": shortest_paths,
    "b17": hundred_thousand_activations,
    "b18": kept_answers,
    "b19": loads_from_frames,
    "store": durable_commits,
    "mem": ten_million,
}
