"""The values of options, and the exit codes."""

from __future__ import annotations

from enum import StrEnum


class EngineName(StrEnum):
    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"


class OnError(StrEnum):
    STOP = "stop"
    CONTINUE = "continue"


class ExportTarget(StrEnum):
    POSTGRES = "postgres"


OK, WRONG_INPUT, WRONG_USAGE, ENGINE_FAILED = 0, 1, 2, 3
"""Exit codes: success, an invalid program or invalid data, wrong usage, an engine failure."""

INTERRUPTED, BROKEN_PIPE = 130, 141
"""The exit codes that a shell reports for a process ended by SIGINT or SIGPIPE."""
