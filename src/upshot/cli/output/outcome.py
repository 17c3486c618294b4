"""The end of a command: its exit code and the errors it reports."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

import typer

from upshot.cli.output.diagnostics import of_error
from upshot.cli.output.terminal import Terminal
from upshot.cli.settings import (
    BROKEN_PIPE,
    ENGINE_FAILED,
    INTERRUPTED,
    WRONG_INPUT,
    WRONG_USAGE,
    Format,
)
from upshot.core.diagnostic import Diagnostic
from upshot.core.errors import EngineError, Error, UsageError, VerifyError, system_reason
from upshot.core.resources import exhausted, ran_out


def finish(body: Callable[[Terminal], int], format: Format) -> NoReturn:
    """Run the body of a command and exit with its code."""
    raise typer.Exit(_exit_code(body, format))


def _exit_code(body: Callable[[Terminal], int], format: Format) -> int:
    terminal = Terminal(format)
    try:
        code = body(terminal)
        terminal.out.flush()
        return code
    except BrokenPipeError:
        # The reader closed the pipe. The interpreter flushes stdout again at exit, which must not fail.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        return BROKEN_PIPE
    except KeyboardInterrupt:
        terminal.message("interrupted")
        return INTERRUPTED
    except Error as error:
        terminal.out.flush()
        terminal.report(of_error(error))
        return code_of(error)
    except (MemoryError, RecursionError, OSError) as error:
        terminal.report([_of_system(error)])
        return ENGINE_FAILED
    except Exception as error:  # noqa: BLE001 - a user gets a message, not a traceback
        terminal.report([_of_system(error) if exhausted(error) else _of_bug(error)])
        return ENGINE_FAILED


def code_of(error: Error) -> int:
    match error:
        case UsageError():
            return WRONG_USAGE
        case EngineError() | VerifyError():
            return ENGINE_FAILED
        case _:
            return WRONG_INPUT


def _of_system(error: BaseException) -> Diagnostic:
    if named := ran_out(error, "the command"):
        return named.diagnostic()
    match error:
        case RecursionError():
            return Diagnostic("too-deep", "the input is nested too deeply")
        case OSError(filename=name) if name is not None:
            return Diagnostic("system-error", f"`{name}`: {system_reason(error)}")
        case _:
            return Diagnostic("system-error", str(error).lower())


def _of_bug(error: Exception) -> Diagnostic:
    if os.environ.get("UPSHOT_TRACEBACK"):
        traceback.print_exc(file=sys.stderr)
    return Diagnostic(
        "internal-error",
        f"{type(error).__name__}: {error}",
        help="this is a bug in Upshot, please report it; `UPSHOT_TRACEBACK=1` prints the traceback",
    )
