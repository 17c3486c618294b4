"""Read the functions that rules call from a Python file."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from upshot.core.diagnostic import Diagnostic
from upshot.core.errors import ProgramError, UsageError, system_reason
from upshot.core.span import Source, Span
from upshot.database.rules.actions import Function
from upshot.engine.user_functions import Fold


def read_actions(path: str | os.PathLike[str]) -> dict[str, Function]:
    """The public functions that a file defines, by name, without those it imports. Its own folder is searched first for
    imports. An error in the file is a `ProgramError` at its line."""
    file = Path(path)
    source = _read(file)
    module = ModuleType(f"upshot_actions_{file.stem}")
    module.__file__ = str(file)
    try:
        code = compile(source.text, source.name, "exec", dont_inherit=True)
        # Registered while it runs: dataclasses and annotations look up their module.
        sys.modules[module.__name__] = module
        with _search_path(file.resolve().parent):
            exec(code, module.__dict__)
    except (Exception, SystemExit) as error:
        raise _broken(source, error) from error
    found = {
        name: each for name, each in vars(module).items() if not name.startswith("_") and _is_defined_in(each, module)
    }
    if not found:
        help = "define one for each name that a rule calls, as in `def notify(rows): …`"
        message = f"`{file}` has no public function"
        raise ProgramError([Diagnostic("no-actions", message, Span(source, 0, 0), help=help)])
    return found


def _read(file: Path) -> Source:
    try:
        return Source(str(file), file.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise UsageError(
            f"file `{file}` does not exist", code="no-such-file", help="name the file of actions"
        ) from None
    except IsADirectoryError:
        raise UsageError(f"`{file}` is a directory, not a file", code="not-a-file", help="name a Python file") from None
    except UnicodeDecodeError:
        raise UsageError(f"`{file}` is not UTF-8 text", code="not-utf8", help="save the file as UTF-8") from None
    except OSError as error:
        reason = system_reason(error)
        raise UsageError(f"cannot read `{file}`: {reason}", code="unreadable-file") from None


@contextmanager
def _search_path(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _is_defined_in(value: object, module: ModuleType) -> bool:
    if isinstance(value, Fold):
        return True
    return inspect.isroutine(value) and getattr(value, "__module__", "") == module.__name__


def _broken(source: Source, error: BaseException) -> ProgramError:
    line = None
    if isinstance(error, SyntaxError) and error.filename == source.name:
        line, why = error.lineno, f"{type(error).__name__}: {error.msg}"
    else:
        why = f"{type(error).__name__}: {error}"
        trace = error.__traceback__
        while trace is not None:
            line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == source.name else line
            trace = trace.tb_next
    return ProgramError(
        [Diagnostic("broken-actions", f"cannot import `{source.name}`: {why}", _line(source, line or 1))]
    )


def _line(source: Source, number: int) -> Span:
    lines = source.text.split("\n")
    before, line = sum(len(each) + 1 for each in lines[: number - 1]), lines[min(number, len(lines)) - 1]
    indent = len(line) - len(line.lstrip())
    return Span(source, before + indent, before + max(indent, len(line.rstrip())))
