"""Topics of Kafka as sources, from a real broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.pipeline.kafka import Broker, Topic, missing_for_kafka
from tests.pipeline.lake import Lake, refused
from upshot.pipeline.batch.positions import OffsetsPosition
from upshot.pipeline.batch.record import recorded

KEYED = """\
.decl edge(x: number, y: number) key(x)
.decl path(x: number, y: number)
path(X, Y) :- edge(X, Y).
path(X, Z) :- path(X, Y), edge(Y, Z).
"""
PIPELINE = """\
[pipeline]
name = "topics"
program = "closure.dl"
engine = "local"
state = "state"

[source.edge]
format = "kafka"
servers = "{servers}"
topic = "{topic}"

[sink.path]
format = "delta"
path = "out/path"
"""


@pytest.fixture(scope="session")
def broker(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    if missing := missing_for_kafka():
        pytest.skip(missing)
    made = Broker(tmp_path_factory.mktemp("kafka"))
    try:
        made.wait()
        yield made
    finally:
        made.stop()


@pytest.fixture
def topic(spark: Any, broker: Broker, tmp_path: Path) -> Iterator[Topic]:
    made = Topic(spark, broker, tmp_path.name)
    yield made
    made.close()


@pytest.fixture
def lake(spark: Any, broker: Broker, topic: Topic, tmp_path: Path) -> Lake:
    return Lake(tmp_path, KEYED, PIPELINE.format(servers=broker.servers, topic=topic.name), spark)


def debezium(op: str, before: Any, after: Any) -> str:
    return json.dumps({"payload": {"op": op, "before": before, "after": after, "source": {"table": "edge"}}})


def test_messages_of_debezium_and_plain_json_are_applied_in_the_order_of_their_partition(
    lake: Lake, topic: Topic
) -> None:
    topic.send(debezium("c", None, {"x": 1, "y": 2}))
    topic.send(debezium("u", {"x": 1, "y": 2}, {"x": 1, "y": 3}))
    topic.send(json.dumps({"x": 3, "y": 4, "_change": 1}), partition=1)
    topic.send(json.dumps({"x": 5, "y": 6, "op": "insert"}), partition=1)
    topic.send(debezium("d", {"x": 5, "y": 6}, None), partition=1)
    topic.send(None, partition=1)
    topic.send("not JSON", partition=1)
    lake.run()
    assert lake.view() == [(1, 3), (1, 4), (3, 4)]
    assert [row[2] for row in lake.quarantine()] == [f"{topic.name}/1:4"]


def test_the_record_of_a_batch_has_the_offsets_and_the_next_run_goes_on_there(lake: Lake, topic: Topic) -> None:
    topic.send(json.dumps({"x": 1, "y": 2, "_change": 1}))
    lake.run()
    topic.send(json.dumps({"x": 2, "y": 3, "_change": 1}))
    assert lake.run().batches == 1
    assert lake.run().batches == 0
    assert lake.view() == [(1, 2), (1, 3), (2, 3)]
    with upshot.connect(lake.state / "store") as database:
        last = recorded(database)
    assert last is not None
    assert last.positions == {"edge": OffsetsPosition(topic.name, '{"0": 2, "1": 0}')}


def test_a_limited_batch_takes_some_messages_and_the_next_one_the_rest(lake: Lake, topic: Topic) -> None:
    lake.pipeline = lake.pipeline.replace('format = "kafka"', 'format = "kafka"\nmax_rows = 2')
    lake.write()
    for number in range(5):
        topic.send(json.dumps({"x": number, "y": -1, "_change": 1}), partition=number % 2)
    assert lake.run().batches > 1
    assert lake.view() == [(number, -1) for number in range(5)]


def test_a_topic_that_is_not_there_is_named(lake: Lake, topic: Topic) -> None:
    lake.pipeline = lake.pipeline.replace(f'topic = "{topic.name}"', 'topic = "elsewhere"')
    lake.write()
    assert refused(lake).code == "source-missing"
