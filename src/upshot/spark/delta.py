"""Delta tables at a location: their possible writers, and Delta's own classes in Spark's Java."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from upshot.core.errors import UsageError
from upshot.spark.lake_path import AnyPath, LakePath
from upshot.spark.location import spark_path, uri_of
from upshot.spark.session import is_connect

EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"

_S3_KEYS = {
    "access.key": "AWS_ACCESS_KEY_ID",
    "secret.key": "AWS_SECRET_ACCESS_KEY",
    "session.token": "AWS_SESSION_TOKEN",
    "endpoint": "AWS_ENDPOINT_URL",
    "endpoint.region": "AWS_REGION",
}
"""Settings of Hadoop's S3 connector, and their names in `deltalake`."""

_OWN_KEYS = (
    "SimpleAWSCredentialsProvider",
    "TemporaryAWSCredentialsProvider",
    "EnvironmentVariableCredentialsProvider",
)
"""Credential providers that need nothing but keys in the settings or the environment."""


HOW_TO_REACH = (
    ", or `pip install deltalake`: it reaches paths of this machine, and S3 with keys in `fs.s3a.access.key` and "
    "`fs.s3a.secret.key`"
)

_SINGLE_DRIVER = "S3SingleDriverLogStore"


@dataclass(frozen=True, slots=True)
class DeltaTarget:
    """A table as `deltalake` addresses it. The options hold secrets: they are in no text of this object."""

    uri: str
    options: Mapping[str, str] | None = field(default=None, repr=False)


def has_delta(session: Any) -> bool:
    """Test whether the session reads and writes Delta tables by itself."""
    return session is not None and EXTENSION in (session.conf.get("spark.sql.extensions", "") or "")


def has_deltalake() -> bool:
    """Test whether the package `deltalake` is installed in this process."""
    return importlib.util.find_spec("deltalake") is not None


def reaches(session: Any, path: AnyPath | str) -> DeltaTarget | None:
    """The table as `deltalake` addresses it from this process; None if it is not installed, if only Spark reaches the
    storage, or if that has no atomic create: `deltalake` commits by creating a file that must not exist."""
    if not has_deltalake():
        return None
    if not isinstance(path, LakePath):
        return DeltaTarget(os.fspath(path))
    parts = urlsplit(path.uri)
    if parts.scheme not in ("s3a", "s3") or session is None or is_connect(session):
        return None
    options = _s3_options(session, parts.netloc)
    return None if options is None else DeltaTarget(f"s3://{parts.netloc}{parts.path}", options)


def creates_atomically(session: Any, path: LakePath) -> bool:
    """Test whether only one of two writers of the same version of a Delta table succeeds. On S3 Spark's Delta needs a
    log store for that, `S3DynamoDBLogStore`; its default only excludes writers of the same process."""
    scheme = urlsplit(path.uri).scheme
    if not scheme.startswith("s3") or reaches(session, path) is not None:
        return True
    named = (f"spark.delta.logStore.{scheme}.impl", "spark.delta.logStore.class")
    store = next((value for name in named if (value := session.conf.get(name, None))), _SINGLE_DRIVER)
    return not store.endswith(_SINGLE_DRIVER)


def delta_target(session: Any, path: AnyPath | str) -> DeltaTarget:
    """As `reaches`; raises instead of returning None."""
    found = reaches(session, path)
    if found is not None:
        return found
    raise UsageError(
        f"the Delta table `{path}` cannot be reached by `deltalake`, and this Spark session has no Delta",
        code="missing-spark-package",
        help=f"start Spark with the package `io.delta:delta-spark`{HOW_TO_REACH}",
    )


def _s3_options(session: Any, bucket: str) -> dict[str, str] | None:
    """The bucket's settings in Hadoop's configuration; None if its credentials have another origin."""
    settings = session._jsparkSession.sessionState().newHadoopConf()

    def setting(name: str) -> str:
        return str(settings.get(f"fs.s3a.bucket.{bucket}.{name}") or settings.get(f"fs.s3a.{name}") or "")

    provider = setting("aws.credentials.provider")
    if provider.count(",") == 0 and provider and not provider.endswith(_OWN_KEYS):
        return None
    options = {ours: value for name, ours in _S3_KEYS.items() if (value := setting(name))}
    has_keys = "AWS_ACCESS_KEY_ID" in options or "AWS_ACCESS_KEY_ID" in os.environ
    if not has_keys:
        return None
    endpoint = options.get("AWS_ENDPOINT_URL", "")
    if endpoint and "://" not in endpoint:
        secure = setting("connection.ssl.enabled") != "false"
        options["AWS_ENDPOINT_URL"] = endpoint = f"{'https' if secure else 'http'}://{endpoint}"
    options["AWS_ALLOW_HTTP"] = str(endpoint.startswith("http://")).lower()
    options["AWS_VIRTUAL_HOSTED_STYLE_REQUEST"] = str(setting("path.style.access") != "true").lower()
    options.setdefault("AWS_REGION", os.environ.get("AWS_REGION", "us-east-1"))
    # Create, never replace: two writers of one version cannot both succeed.
    options["AWS_CONDITIONAL_PUT"] = "etag"
    return options


def delta_log(session: Any, path: AnyPath | str) -> Any:
    """Delta's log of the table at a path or URI, in Spark's Java."""
    return session._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session._jsparkSession, spark_path(path))


def delta_snapshot(session: Any, path: AnyPath | str) -> Any:
    """The newest snapshot of the table; its version is -1 if there is none."""
    nothing = session._jvm.scala.Option.empty()
    return delta_log(session, path).update(False, nothing, nothing)


# ---- tables of Spark's catalog ---------------------------------------------------------------------------------

_GONE = ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "DELTA_TABLE_NOT_FOUND", "DELTA_MISSING_DELTA_TABLE")


def quoted_name(table: str) -> str:
    """
    >>> quoted_name("main.sales.order")
    '`main`.`sales`.`order`'
    """
    return ".".join("`" + part.strip("`").replace("`", "``") + "`" for part in table.split("."))


def table_format(session: Any, table: str) -> str | None:
    """The provider of a table, such as delta, parquet, iceberg or view; None if there is no such table."""
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - an optional package

    try:
        rows = session.sql(f"describe table extended {quoted_name(table)}").collect()
    except AnalysisException as error:
        if error.getCondition() in _GONE:
            return None
        raise
    described = {row["col_name"]: row["data_type"] for row in rows}
    return str(described.get("Provider") or ("view" if described.get("Type") == "VIEW" else "")).lower()


def delta_location(session: Any, table: str) -> str | None:
    """The URI of a Delta table of the catalog; None if it is of another format, or there is none."""
    if table_format(session, table) != "delta":
        return None
    row = session.sql(f"describe detail {quoted_name(table)}").select("location").first()
    location = str(row["location"])
    # Delta returns a local path unescaped, not as a URI.
    return uri_of(location.removeprefix("file:")) if location.startswith("file:") else location
