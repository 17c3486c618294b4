"""Base relations from files, tables and databases, through Spark, into views and their change logs.

sources ─ positions ─► micro-batch ─► read ranges ─► quarantine ─► transaction ─► record ─► sinks catch up ─► checkpoint

A Spark Structured Streaming query over one Python data source that carries nothing but the positions of all sources;
one micro-batch is one transaction. The rows of the range are read by Spark's own readers. The store's record, which
holds the positions too, is the commit point: a batch that Spark replays after it goes straight to the sinks, and a sink
knows from itself which versions it holds. (`pipeline/run.py`, `pipeline/steps.py`)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from upshot.pipeline.config.config import PipelineConfig, read_config
    from upshot.pipeline.dry_run import DryRun
    from upshot.pipeline.metrics import BatchMetrics
    from upshot.pipeline.run import Pipeline, Summary, Watchers, run_pipeline

__all__ = [
    "BatchMetrics",
    "DryRun",
    "Pipeline",
    "PipelineConfig",
    "Summary",
    "Watchers",
    "read_config",
    "run_pipeline",
]

# Loaded on first use: the pipeline needs pyspark, which is optional.
_HOMES = {
    "BatchMetrics": "metrics",
    "DryRun": "dry_run",
    "Pipeline": "run",
    "PipelineConfig": "config.config",
    "Summary": "run",
    "Watchers": "run",
    "read_config": "config.config",
    "run_pipeline": "run",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'upshot.pipeline' has no attribute {name!r}")
    value = getattr(import_module(f"upshot.pipeline.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
