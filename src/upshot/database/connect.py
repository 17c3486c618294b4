"""`upshot.connect()`: check its arguments, choose the engine, open the database."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from upshot.core.diagnostic import did_you_mean
from upshot.core.errors import UsageError
from upshot.core.optimizations import optimizations
from upshot.core.resources import enough_resources, spare_address_space
from upshot.core.running_spark import running_session
from upshot.database import durable
from upshot.database.budget import memory_budget
from upshot.database.database import Database
from upshot.database.engines import local_engine
from upshot.database.live.live_queries import MOST_KEPT
from upshot.database.state import MAX_FIRINGS
from upshot.engine.limits import MOST_ROUNDS, Limits
from upshot.engine.user_functions import UserFunction

if TYPE_CHECKING:
    from upshot.database.engines import Engine

ENGINES = ("auto", "local", "spark")


def connect(
    path: str | os.PathLike[str] | None = None,
    *,
    spark: Any = None,
    location: str | os.PathLike[str] | None = None,
    engine: str = "auto",
    max_rounds: int | None = None,
    memory: int | str | None = None,
    optimize: bool | Collection[str] = True,
    max_firings: int = MAX_FIRINGS,
    keep: int | str | Mapping[str, Any] | None = None,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    keep_answers: int = MOST_KEPT,
) -> Database:
    """A new database in memory; with a `path`, the one in that database directory, created if new or empty. A URI
    (`s3a://bucket/db`, `hdfs://…`) is reached through the Spark session: one process at a time owns the database there,
    the last one that opened it.

    With a Spark session, classic or Connect, `engine="auto"` works in this process while the tables fit into `memory`
    (bytes, or text such as "4GiB"; by default a quarter of the memory available to the process) and moves to Spark when
    they outgrow it. `engine="spark"` does everything there, and starts a session if there is none; `engine="local"`
    does everything here. `location` is the place of the Spark engine's files: a URI that all machines of the cluster
    reach ("s3a://bucket/folder", "hdfs:///folder") or a path of this machine, by default the Spark setting
    `upshot.location`, else a folder beside a database on a lake. `max_rounds` bounds the recursion of a view
    (`LimitError`), `max_firings` the firings of rules in a transaction, each caused by the one before (`RuleError`).
    `optimize` switches optimizations off (False) or names those to use: the answers are the same. `keep` bounds the
    history of a durable database for `history` and `watch(since=…)`: a number of commits, bounds such as {"commits":
    100_000, "bytes": "1GiB", "age": timedelta(days=7)}, or "all"; by default a million commits of at most 4 GiB.
    `functions` has the code of functions that rules call, as `db.function` registers it. `keep_answers` bounds the rows
    of answers that are kept current for repeated queries, as `db.keep_answers` does.

    >>> with connect() as db:
    ...     _ = db.define(".decl edge(x: number, y: number)")
    """
    _refuse_engine(engine, spark, location, memory)
    _refuse_bounds(max_rounds=1 if max_rounds is None else max_rounds, max_firings=max_firings)
    spare_address_space()
    limits = Limits(min(max_rounds or Limits().max_rounds, MOST_ROUNDS), optimizations=optimizations(optimize))
    limits.functions.registered.update({name: UserFunction(code) for name, code in (functions or {}).items()})
    make_engine = _engines(spark, engine, limits, memory, _engine_location(path, spark, location))
    if path is None and keep is not None:
        raise UsageError("`keep` needs a database directory", code="wrong-argument", help="pass its path too")
    with enough_resources("opening the database"):
        if path is None:
            # With Spark the engine is made now: a faulty session is an error of `connect`.
            db = Database(make_engine, max_firings=max_firings, lazy=isinstance(make_engine, partial))
            return _configured(db, keep_answers)
        retention = durable.retention.retention_of(keep)
        db = durable.opening.open_durable(path, make_engine, max_firings, retention, spark or running_session())
        return _configured(db, keep_answers, functions or {})


def _configured(
    db: Database, rows: int, functions: Mapping[str, Callable[..., Any]] = MappingProxyType({})
) -> Database:
    """The database with this bound on kept answers, and these functions."""
    for name, code in functions.items():
        db.function(name, code)
    if rows != MOST_KEPT or isinstance(rows, bool):
        try:
            db.keep_answers(rows)
        except UsageError:
            db.close()
            raise
    return db


def _refuse_bounds(**bounds: object) -> None:
    for name, bound in bounds.items():
        if not isinstance(bound, int) or bound < 1:
            hint = "pass a positive integer, such as 1_000"
            raise UsageError(f"invalid `{name}`: {bound!r}", code="wrong-argument", help=hint)


def _engine_location(path: object, spark: Any, location: str | os.PathLike[str] | None) -> str | None:
    """The location of the engine's files: the named one, else beside a database on a lake, which all machines reach."""
    if location is not None:
        return os.fspath(location)
    if spark is None:
        return None
    from upshot.spark.lake_path import LakePath  # noqa: PLC0415 - for Spark
    from upshot.spark.location import has_scheme, named_location  # noqa: PLC0415 - for Spark

    if not isinstance(path, str | LakePath) or not has_scheme(path) or named_location(spark):
        return None
    return f"{os.fspath(path).rstrip('/')}.work"


def _refuse_engine(engine: str, spark: Any, location: object, memory: object) -> None:
    """Raise if the engine does not exist, or the session, location or memory do not fit it."""
    if engine not in ENGINES:
        hint = did_you_mean(str(engine), ENGINES) or "the engines are `auto`, `local` and `spark`"
        raise UsageError(f"unknown engine `{engine}`", code="unknown-engine", help=hint)
    if spark is not None and not callable(getattr(spark, "createDataFrame", None)):
        hint = "pass `SparkSession.builder.getOrCreate()`"
        message = f"`spark` must be a Spark session, not {type(spark).__name__}"
        raise UsageError(message, code="wrong-argument", help=hint)
    if engine == "spark" and memory is not None:
        hint = 'omit it, or use `engine="auto"`'
        raise UsageError("`memory` limits the local engine, which is not used", code="wrong-argument", help=hint)
    if location is not None and (engine == "local" or (spark is None and engine != "spark")):
        raise UsageError(
            "`location` is for the Spark engine, which is not used",
            code="wrong-argument",
            help="omit it, or pass a Spark session",
        )


def _engines(
    spark: Any, engine: str, limits: Limits, memory: int | str | None, location: str | None
) -> Callable[[], Engine]:
    """A factory of engines for the database; `verify` makes a second one."""
    if engine == "local" or (engine == "auto" and spark is None):
        bound = None if memory is None else memory_budget(memory)
        return partial(local_engine, replace(limits, memory=bound))
    from upshot.database.placement import SparkPlace  # noqa: PLC0415 - for Spark
    from upshot.spark.session import own_session  # noqa: PLC0415 - for Spark

    if engine == "spark":
        reason = 'requested by `engine="spark"`'
        spark = spark or running_session()
        if spark is not None:
            return SparkPlace(spark, limits, reason=reason, location=location)
        return SparkPlace(None, limits, reason=reason, start=own_session, location=location)
    return SparkPlace(spark, replace(limits, memory=memory_budget(memory)), location=location)
