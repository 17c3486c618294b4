"""Executors and workers that die while a commit runs: the commit is tried again and means what it would have meant.

The machines share nothing but HDFS, so nothing of a lost one can be read any more."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import upshot
from tests.cluster.cluster import Cluster, missing_for_apart, session
from tests.cluster.hdfs import Hdfs
from tests.cluster.strikes import busy_jobs, newest_job
from tests.missing import missing_for_spark

pytestmark = pytest.mark.slow
"""A cluster is started, and parts of it are killed."""

PROGRAM = """
.decl edge(x: number, y: number)
.decl closure(x: number, y: number)
.decl even(x: number) .decl odd(x: number)
.decl far(x: number, n: number)
closure(X, Y) :- edge(X, Y).
closure(X, Z) :- closure(X, Y), edge(Y, Z).
odd(Y) :- edge(0, Y).
odd(Y) :- even(X), edge(X, Y).
even(Y) :- odd(X), edge(X, Y).
far(X, N) :- edge(X, _), N = count : { closure(X, _) }.
.decl above0(x: number)
above0(X) :- edge(X, _), !even(X).
"""
LEVELS = 6
"""Views of which each reads the one below: a round, and a Spark job or more, each."""
PROGRAM += "".join(
    f".decl above{n}(x: number)\nabove{n}(X) :- edge(X, _), !above{n - 1}(X).\n" for n in range(1, LEVELS)
)
VIEWS = ("closure", "even", "odd", "far", *(f"above{n}" for n in range(LEVELS)))
CHAIN = [(node, node + 1) for node in range(12)]


def changed(db: Any, *, insert: list[tuple[int, int]], delete: list[tuple[int, int]]) -> dict[str, tuple[Any, Any]]:
    with db.transaction() as tx:
        tx.delete("edge", delete)
        tx.insert("edge", insert)
    return {view: (set(tx.changes[view].inserted), set(tx.changes[view].deleted)) for view in VIEWS}


class Retried(logging.Handler):
    """Hears the engine say that an attempt failed and is made again."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "made again" in record.getMessage():
            self.heard.set()


@contextmanager
def killing(spark: Any, cluster: Cluster, kill: Callable[[], None], *, after: int) -> Iterator[None]:
    """Inside, `kill` is called while a task runs, from the job number `after` of the block on, until an attempt has
    failed of it: an executor that dies between two tasks is replaced without anybody noticing. So that even the
    shortest task still runs then, executors are frozen first."""
    ended, retried, before = threading.Event(), Retried(), newest_job(spark)

    def watch() -> None:
        killed: set[int] = set()
        while not ended.is_set() and not retried.heard.is_set():
            newest = newest_job(spark)
            if newest - before >= after and newest not in killed:
                cluster.freeze_executors()
                due = {job for job in busy_jobs(spark) if job - before >= after}
                if due - killed:
                    kill()
                    killed |= due
            time.sleep(0.005)
        cluster.thaw_executors()

    watcher = threading.Thread(target=watch)
    logger = logging.getLogger("upshot.spark")
    logger.addHandler(retried)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        logger.removeHandler(retried)
    assert retried.heard.is_set(), "no attempt failed: nothing was tested"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of its own: other tests count on the workers of theirs."""
    if missing := missing_for_spark() or missing_for_apart():
        pytest.skip(missing)
    made = Cluster(tmp_path_factory.mktemp("fragile"), apart=True)
    try:
        made.add_worker()
        made.add_worker()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def spark(cluster: Cluster, hdfs: Hdfs) -> Iterator[Any]:
    """No task is tried twice, so the loss of an executor fails the job it worked for, and what happens then is up to
    Upshot."""
    made = session(cluster, **{"spark.task.maxFailures": "1", "upshot.location": f"{hdfs.uri}/faults"})
    yield made
    made.stop()


@pytest.fixture
def both(spark: Any) -> Iterator[tuple[Any, Any]]:
    """The same database twice: on the cluster, and local for comparison."""
    with upshot.connect(spark=spark, engine="spark") as db, upshot.connect() as local:
        for each in (db, local):
            each.define(PROGRAM)
        assert changed(db, insert=CHAIN, delete=[]) == changed(local, insert=CHAIN, delete=[])
        yield db, local


@pytest.mark.deep
@pytest.mark.parametrize("after", [1, 5])
def test_a_commit_survives_the_death_of_an_executor(
    spark: Any, cluster: Cluster, both: tuple[Any, Any], after: int
) -> None:
    """Workers die with their executors in `make test`, below."""
    db, local = both
    cluster.wait_for_executors()
    change = {"insert": [(4, 2), (20, 0)], "delete": [(7, 8)]}

    def kill() -> None:
        """All of them, since nobody says on which one the task runs."""
        for worker in cluster.living():
            cluster.kill_executor(worker)

    with killing(spark, cluster, kill, after=after):
        found = changed(db, **change)
    assert found == changed(local, **change)
    agree(db, local)


@pytest.mark.deep
def test_a_commit_survives_the_death_of_a_worker_and_so_does_the_next(
    spark: Any, cluster: Cluster, both: tuple[Any, Any]
) -> None:
    db, local = both
    cluster.add_worker()
    cluster.wait_for_executors()
    change = {"insert": [(3, 1)], "delete": [(9, 10), (0, 1)]}

    def kill() -> None:
        """One worker for good, and the executors of the others, which start new ones."""
        if len(cluster.living()) > 2:
            cluster.kill_worker(cluster.living()[0])
        for worker in cluster.living():
            cluster.kill_executor(worker)

    with killing(spark, cluster, kill, after=3):
        found = changed(db, **change)
    assert len(cluster.living()) == 2
    assert found == changed(local, **change)
    change = {"insert": [(0, 1), (9, 10)], "delete": [(3, 1)]}
    assert changed(db, **change) == changed(local, **change)
    agree(db, local)


def test_a_commit_survives_the_loss_of_all_workers_and_their_replacement(
    spark: Any, cluster: Cluster, both: tuple[Any, Any]
) -> None:
    """Nothing of a database is only on its workers: others take over, in a commit and between two of them."""
    db, local = both
    lost = cluster.living()
    cluster.wait_for_executors()
    change = {"insert": [(5, 3), (20, 1)], "delete": [(2, 3)]}

    def replace() -> None:
        for worker in lost:
            cluster.kill_worker(worker)
        while len(cluster.living()) < len(lost):
            cluster.add_worker()

    with killing(spark, cluster, replace, after=2):
        found = changed(db, **change)
    assert not set(lost) & set(cluster.living())
    assert found == changed(local, **change)
    lost = cluster.living()
    replace()
    change = {"insert": [(2, 3)], "delete": [(5, 3), (11, 12)]}
    assert changed(db, **change) == changed(local, **change)
    agree(db, local)


def agree(db: Any, local: Any) -> None:
    assert {view: set(db.rows(view)) for view in VIEWS} == {view: set(local.rows(view)) for view in VIEWS}
