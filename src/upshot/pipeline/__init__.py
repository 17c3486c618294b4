"""Base relations from files, tables and databases, through Spark, into views and their change logs.

sources ─ positions ─► micro-batch ─► read ranges ─► quarantine ─► transaction ─► record ─► sinks catch up ─► checkpoint

A Spark Structured Streaming query over one Python data source that carries nothing but the positions of all sources;
one micro-batch is one transaction. The rows of the range are read by Spark's own readers. The store's record, which
holds the positions too, is the commit point: a batch that Spark replays after it goes straight to the sinks, and a sink
knows from itself which versions it holds. (`pipeline/run.py`, `pipeline/steps.py`)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from upshot.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from upshot.pipeline.config.config import PipelineConfig, read_config
    from upshot.pipeline.dry_run import DryRun
    from upshot.pipeline.metrics import BatchMetrics
    from upshot.pipeline.run import Pipeline, Summary, Watchers, run_pipeline
else:
    # Imported on first use: the pipeline needs pyspark, which is optional.
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "BatchMetrics": "upshot.pipeline.metrics",
            "DryRun": "upshot.pipeline.dry_run",
            "Pipeline": "upshot.pipeline.run",
            "PipelineConfig": "upshot.pipeline.config.config",
            "Summary": "upshot.pipeline.run",
            "Watchers": "upshot.pipeline.run",
            "read_config": "upshot.pipeline.config.config",
            "run_pipeline": "upshot.pipeline.run",
        },
    )

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
