"""Cached lookups of the Java classes that PySpark needs for every column and frame. Importing this imports pyspark.

To find a class, Java searches some hundred archives, and PySpark does not cache the answer: so a third of the driver's
time for a small round would be spent on the same few classes. They are cached where PySpark looks for them, for all
sessions of the process, also the user's own.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass, JavaMember

_NAMES = (
    "org.apache.spark.sql.functions",
    "functions",
    "PythonUtils",
    "PythonSQLUtils",
    "org.apache.spark.sql.classic.SparkSession",
)


class KnownClass(JavaClass):  # type: ignore[misc]
    """A class whose methods are looked up once, too."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if isinstance(found, JavaMember):
            setattr(self, name, found)
        return found


def remember_classes(java: Any) -> None:
    """Cache these classes for PySpark; missing ones are looked up as before."""
    for name in _NAMES:
        if name not in vars(java):
            found = getattr(java, name)
            if type(found) is JavaClass:
                setattr(java, name, KnownClass(found._fqn, found._gateway_client))
