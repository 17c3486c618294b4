"""A topic of Kafka: its messages are statements about rows, as lines of change files are.

The position is the offset of every partition, so the record of a batch has the range that was read. Messages of one
partition apply in the order of their offsets; changes of one row in several partitions have no order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from upshot.core.errors import DataError, EngineError, Error, UsageError
from upshot.core.schema import Schema
from upshot.pipeline.batch.positions import OffsetsPosition, Position
from upshot.pipeline.sources.reading.envelopes import LineReader
from upshot.pipeline.sources.reading.fitting import SourceBatch, bad_rows, net_batch
from upshot.pipeline.sources.reading.journal import other_source
from upshot.pipeline.sources.reading.lines import ORDER, TextFile, statements_of_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from upshot.pipeline.config.config import SourceConfig

Offsets = Mapping[int, int]
"""By partition: the offset of the next message."""

_DESERIALIZER = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
FEW_MESSAGES = 10_000
"""Messages per task."""
_PATIENCE = "15000"
"""Milliseconds within which a broker must answer."""


class KafkaTopic:
    def __init__(self, config: SourceConfig, schema: Schema) -> None:
        options = config.options
        self.relation = schema.name
        self._schema = schema
        self._servers, self._topic = str(options["servers"]), str(options["topic"])
        self._from_start = options.get("starting", "earliest") == "earliest"
        self._most = int(options.get("max_rows", 1_000_000))
        self._settings: Mapping[str, str] = options.get("settings") or {}
        self._reader = LineReader(schema, frozenset(), options.get("extra_columns") == "ignore")

    # ---- positions ------------------------------------------------------------------------------

    def latest(self, spark: SparkSession, start: Position | None) -> Position:
        before = self._offsets(start)
        first, last = self._bounds(spark)
        if before is None:
            before = first if self._from_start else last
        self._refuse_lost(before, first, last)
        known = {partition: before.get(partition, first[partition]) for partition in last}
        found = self._limited(known, last)
        # The first position is always new: it fixes where reading begins if `starting` is `latest`.
        return start if start is not None and found == self._offsets(start) else _position(self._topic, found)

    def _limited(self, before: Offsets, last: Offsets) -> dict[int, int]:
        """At most this many messages, taken evenly from all partitions."""
        waiting = sum(last[partition] - before[partition] for partition in last)
        if waiting <= self._most:
            return dict(last)
        share = self._most / waiting
        taken = {each: max(1, int((last[each] - before[each]) * share)) for each in last if last[each] > before[each]}
        return {each: before[each] + taken.get(each, 0) for each in last}

    def _refuse_lost(self, before: Offsets, first: Offsets, last: Offsets) -> None:
        for partition, offset in before.items():
            if partition not in last or offset > last[partition]:
                raise DataError(
                    f"the topic `{self._topic}` of `{self.relation}` was replaced by another topic: partition "
                    f"{partition} was read to offset {offset} and ends at {last.get(partition, 0)}",
                    code="source-rewritten",
                    help="restore the old topic, or start with an empty `state`",
                )
            if offset < first[partition]:
                raise DataError(
                    f"messages {offset} to {first[partition] - 1} of partition {partition} of `{self._topic}` were "
                    f"deleted before they were read for `{self.relation}`",
                    code="source-expired",
                    help="keep messages longer, and start with an empty `state`",
                )

    def _offsets(self, position: Position | None) -> dict[int, int] | None:
        if position is None:
            return None
        if not isinstance(position, OffsetsPosition) or position.topic != self._topic:
            raise other_source(self.relation)
        return {int(partition): offset for partition, offset in json.loads(position.offsets).items()}

    def _bounds(self, spark: SparkSession) -> tuple[dict[int, int], dict[int, int]]:
        """The first offset of every partition that the broker has, and the one after the last."""
        java = spark._jvm
        properties = java.java.util.Properties()
        settings = {
            "bootstrap.servers": self._servers,
            "key.deserializer": _DESERIALIZER,
            "value.deserializer": _DESERIALIZER,
            "default.api.timeout.ms": _PATIENCE,
            "isolation.level": "read_committed",
            **{name.removeprefix("kafka."): value for name, value in self._settings.items()},
        }
        for name, value in settings.items():
            properties.put(name, value)
        try:
            consumer = java.org.apache.kafka.clients.consumer.KafkaConsumer(properties)
        except TypeError:
            # Py4J returns a package for a class that does not exist.
            raise _no_connector() from None
        except Exception as error:  # noqa: BLE001 - Java's errors come as they are
            raise self._failure(error) from None
        try:
            return self._ends(java, consumer)
        except Error:
            raise
        except Exception as error:  # noqa: BLE001 - Java's errors come as they are
            raise self._failure(error) from None
        finally:
            consumer.close()

    def _ends(self, java: Any, consumer: Any) -> tuple[dict[int, int], dict[int, int]]:
        if not consumer.listTopics().containsKey(self._topic):
            raise DataError(
                f"topic `{self._topic}`, the source of `{self.relation}`, does not exist",
                code="source-missing",
                help="check `topic` and `servers`",
            )
        partitions = java.java.util.ArrayList()
        for each in consumer.partitionsFor(self._topic):
            partitions.add(java.org.apache.kafka.common.TopicPartition(self._topic, each.partition()))
        found = consumer.beginningOffsets(partitions), consumer.endOffsets(partitions)
        first, last = ({each.partition(): int(ends.get(each)) for each in partitions} for ends in found)
        return first, last

    def _failure(self, error: Exception) -> EngineError:
        cause = getattr(error, "java_exception", None)
        words = next(iter(str(cause.toString() if cause is not None else error).splitlines()), type(error).__name__)
        failed = EngineError(
            f"the brokers of `{self.relation}` at `{self._servers}` do not answer: {words}",
            code="source-unreachable",
            help="check `servers`, and the `settings` for encryption and credentials",
        )
        failed.retryable = "Timeout" in words or "Disconnect" in words
        return failed

    # ---- rows -----------------------------------------------------------------------------------

    def changes(self, spark: SparkSession, start: Position | None, end: Position) -> SourceBatch:
        before, after = self._offsets(start), self._offsets(end)
        assert after is not None
        if before is None:
            before = self._bounds(spark)[0] if self._from_start else after
        read = {each: (before.get(each, 0), offset) for each, offset in after.items() if offset > before.get(each, 0)}
        if not read:
            return SourceBatch(self._schema)
        chunks = self._messages(spark, read)
        files = [TextFile(_name(self._topic, each), f"{self._topic}/{each}", 0, each) for each in read]
        statements = statements_of_lines(chunks, files, self._reader)
        few = sum(last - first for first, last in read.values()) <= FEW_MESSAGES
        return net_batch(statements, self._schema, ORDER, bad_rows(statements), few=few)

    def _messages(self, spark: SparkSession, read: Mapping[int, tuple[int, int]]) -> Any:
        starting = {self._topic: {str(each): start for each, (start, _) in read.items()}}
        ending = {self._topic: {str(each): end for each, (_, end) in read.items()}}
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", self._servers)
        reader = reader.option("assign", json.dumps({self._topic: sorted(read)}))
        reader = reader.option("startingOffsets", json.dumps(starting)).option("endingOffsets", json.dumps(ending))
        for name, value in self._settings.items():
            reader = reader.option(name if name.startswith("kafka.") else f"kafka.{name}", value)
        found = reader.option("failOnDataLoss", "true").option("kafka.isolation.level", "read_committed").load()
        # A message without a value repeats the deletion before it, for brokers that compact the topic.
        return found.where(F.col("value").isNotNull()).select(
            F.concat(F.lit(f"{_PREFIX}{self._topic}/"), F.col("partition").cast("string")).alias("uri"),
            F.col("value"),
            F.lit(0).cast("bigint").alias("block"),
            F.col("offset").alias("line"),
        )

    def check(self, spark: SparkSession, start: Position | None) -> tuple[str, ...]:
        first, last = self._bounds(spark)
        before = self._offsets(start) or first
        self._refuse_lost(before, first, last)
        waiting = sum(last[each] - before.get(each, first[each]) for each in last)
        return (f"the topic `{self._topic}` with {len(last)} partitions, {waiting} messages to read",)

    def trim(self, committed: Position) -> None:
        """Nothing is staged: the brokers keep the messages."""


_PREFIX = "kafka:"


def _name(topic: str, partition: int) -> str:
    return f"{_PREFIX}{topic}/{partition}"


def _position(topic: str, offsets: Offsets) -> OffsetsPosition:
    return OffsetsPosition(topic, json.dumps({str(each): offsets[each] for each in sorted(offsets)}))


def _no_connector() -> UsageError:
    return UsageError(
        "Spark was started without its connector to Kafka",
        code="missing-spark-package",
        help="give Spark the package `org.apache.spark:spark-sql-kafka-0-10_2.13` of its own version, with "
        "`spark.jars.packages` or `spark.jars`",
    )
