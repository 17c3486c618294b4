"""What Spark throws becomes an error of ours that says what to do next."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from tests.spark.conftest import Place
from upshot.core.errors import DataError, EngineError, Error, OverflowError_
from upshot.core.span import Source, Span
from upshot.engine.spark.frames.functor_udfs import arrow_function
from upshot.spark.failures import CarriedError, marked, place, translated
from upshot.spark.location import child, files_of
from upshot.spark.preflight import shared_workspace
from upshot.spark.session import private_session


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    return private_session(spark)


def failure(work: Any) -> Error:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever Spark throws
        work()
    return translated(caught.value)


ODD = DataError("`to_number` cannot read 'ä\n\\\"}:upshot'", code="not-a-number", help="filter with `match` first")


def test_an_error_comes_back_from_an_expression_with_its_place(session: Any) -> None:
    span = Span(Source("a.dl", "p(X) :- q(X)."), 0, 4)
    text = marked(OverflowError_("`1 + 2` is much", code="overflow", help="use floats"), place(span))
    found = failure(lambda: session.range(3).select(F.raise_error(F.lit(text))).toArrow())
    assert isinstance(found, OverflowError_)
    assert (found.message, found.code, found.help, found.span) == ("`1 + 2` is much", "overflow", "use floats", span)
    assert not found.retryable


def raising(error: BaseException) -> Any:
    """Work that travels to a worker and raises there."""

    def work(_: pa.Array) -> pa.Array:
        raise error

    return work


def on_worker(session: Any, work: Any) -> Error:
    return failure(lambda: session.range(1).select(arrow_function(work, "long")("id")).toArrow())


def test_an_error_comes_back_from_a_worker_word_for_word(session: Any) -> None:
    found = on_worker(session, raising(CarriedError(marked(ODD))))
    assert type(found) is DataError
    assert (found.message, found.code, found.help) == (ODD.message, ODD.code, ODD.help)


def test_what_else_a_worker_raises_is_told_apart(session: Any) -> None:
    errors = {
        "worker-environment": ModuleNotFoundError("No module named 'upshot'"),
        "out-of-memory": MemoryError(),
        "spark-failed": ValueError("something else"),
    }
    found = {code: on_worker(session, raising(error)) for code, error in errors.items()}
    assert {code: error.code for code, error in found.items()} == {code: code for code in errors}
    assert "No module named 'upshot'" in found["worker-environment"].message
    assert "PYSPARK_PYTHON" in found["worker-environment"].help
    assert "ValueError: something else" in found["spark-failed"].message


def test_stored_rows_that_are_gone_can_be_tried_again(session: Any, place: Place) -> None:
    shared_workspace(session, place.uri).remove()
    folder = child(place.uri, "rows")
    session.range(10).write.parquet(folder)
    frame = session.read.parquet(folder)
    files_of(session, folder).delete(folder)
    found = failure(frame.collect)
    assert (type(found), found.code, found.retryable) == (EngineError, "lost-worker", True)


def test_a_query_that_spark_refuses_is_told_by_its_first_line(session: Any) -> None:
    found = failure(lambda: session.range(1).select("absent").collect())
    assert (type(found), found.code, found.retryable) == (EngineError, "spark-failed", False)
    assert "UNRESOLVED_COLUMN" in found.message
    assert "\n" not in found.message


@pytest.mark.parametrize(
    ("text", "code", "retryable"),
    [
        ("Job aborted due to stage failure: Task 1 in stage 3.0 failed 4 times, most recent failure: Lost task 1.3 in "
         "stage 3.0: ExecutorLostFailure (executor 2 exited caused by one of the running tasks) Reason: Worker lost",
         "lost-worker", True),
        ("org.apache.spark.shuffle.MetadataFetchFailedException: Missing an output location for shuffle 3 partition 0",
         "lost-worker", True),
        ("Job aborted: Failed to get broadcast_7_piece0 of broadcast_7", "lost-worker", True),
        ("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)", "lost-worker", True),
        ("java.lang.OutOfMemoryError: Java heap space", "out-of-memory", False),
        ("Container killed by YARN for exceeding physical memory limits. 5.5 GB of 5.5 GB used", "out-of-memory",
         False),
        ("org.apache.spark.memory.SparkOutOfMemoryError: [UNABLE_TO_ACQUIRE_MEMORY] Unable to acquire 65536 bytes",
         "out-of-memory", False),
        ("java.io.IOException: Cannot run program \"/opt/python3\": error=2, No such file or directory",
         "worker-environment", False),
        ("[PYTHON_VERSION_MISMATCH] Python in worker has different version", "worker-environment", False),
        ("something nobody has seen before", "spark-failed", False),
    ],
)  # fmt: skip
def test_what_befalls_a_cluster_is_told_apart(text: str, code: str, retryable: bool) -> None:
    found = translated(Exception(text))
    assert isinstance(found, EngineError)
    assert (found.code, found.retryable) == (code, retryable)
    assert found.help


def test_our_own_errors_pass_unchanged_and_causes_are_looked_into() -> None:
    assert translated(ODD) is ODD
    outer = RuntimeError("while collecting")
    outer.__cause__ = CarriedError(marked(ODD))
    assert translated(outer).code == "not-a-number"
