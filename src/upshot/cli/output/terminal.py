"""The output of a command: data to stdout, everything else to stderr, colors and progress only on a terminal."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from upshot.cli.output.diagnostics import as_json, as_text
from upshot.cli.settings import Format
from upshot.core.diagnostic import Diagnostic
from upshot.core.errors import UsageError, system_reason

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress, TaskID


PATIENCE = 2.0
"""Seconds before a progress bar appears."""


class Terminal:
    """The output streams of a command. `rich` is imported only when something is drawn."""

    def __init__(self, format: Format = Format.TEXT) -> None:
        self.format = format
        self._console: Console | None = None

    @property
    def json(self) -> bool:
        return self.format is Format.JSON

    @property
    def out(self) -> IO[str]:
        return sys.stdout

    @property
    def err(self) -> IO[str]:
        return sys.stderr

    def data(self, text: str) -> None:
        """Print lines of the result."""
        self.out.write(text + "\n")

    def message(self, text: str) -> None:
        """Print a message to the user."""
        self.err.write(text + "\n")
        self.err.flush()

    def report(self, diagnostics: Iterable[Diagnostic], *, to: IO[str] | None = None) -> None:
        """Print diagnostics to stderr (or `to`): blocks of text, or one JSON object per line."""
        stream = to or self.err
        found = list(diagnostics)
        if self.json:
            stream.writelines(as_json(diagnostic) + "\n" for diagnostic in found)
        elif found:
            stream.write("\n\n".join(as_text(diagnostic, color=in_color(stream)) for diagnostic in found) + "\n")
        stream.flush()

    @property
    def console(self) -> Console:
        """A `rich` console on stdout. It prints nothing with `--format json`."""
        if self._console is None:
            from rich.console import Console

            self._console = Console(file=self.out, highlight=False, quiet=self.json)
        return self._console

    def show(self, *drawn: RenderableType) -> None:
        """Print tables and styled text; without trailing blanks if stdout is not a terminal."""
        if self.out.isatty():
            self.console.print(*drawn)
            return
        with self.console.capture() as captured:
            self.console.print(*drawn)
        self.out.writelines(line.rstrip() + "\n" for line in captured.get().splitlines())

    @contextmanager
    def progress(self, label: str, total: float | None = None) -> Iterator[Bar]:
        """A progress bar on stderr, on a terminal only. It appears after `PATIENCE` and disappears at the end."""
        bar = Bar(label, total, visible=self.err.isatty() and not self.json)
        with bar:
            yield bar


def in_color(stream: IO[str]) -> bool:
    """Test whether the stream is a terminal with colors, and colors are not disabled (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class Bar:
    """Counts work, and draws a bar once the work has taken longer than `PATIENCE`."""

    def __init__(self, label: str, total: float | None, *, visible: bool) -> None:
        self._label = label
        self._total = total
        self._done = 0.0
        self._visible = visible
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Bar:
        if self._visible:
            self._timer = threading.Timer(PATIENCE, self._show)
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._visible = False
            if self._progress is not None:
                self._progress.stop()

    def advance(self, amount: float = 1.0) -> None:
        with self._lock:
            self._done += amount
            if self._progress is not None and self._task is not None:
                self._progress.update(self._task, completed=self._done)

    def restart(self, label: str, total: float | None = None) -> None:
        """Start the next phase of the work under a new label."""
        with self._lock:
            self._label, self._total, self._done = label, total, 0.0
            if self._progress is not None and self._task is not None:
                self._progress.reset(self._task, description=label, total=total)

    def label(self, label: str) -> None:
        """Change the label only."""
        with self._lock:
            self._label = label
            if self._progress is not None and self._task is not None:
                self._progress.update(self._task, description=label)

    def _show(self) -> None:
        with self._lock:
            if not self._visible:
                return
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

            columns: tuple[Any, ...] = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
            self._progress = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
            self._task = self._progress.add_task(self._label, total=self._total, completed=int(self._done))
            self._progress.start()


STDOUT = Path("-")


def draw(terminal: Terminal, svg: Path, picture: str) -> None:
    """Write a picture to the file of `--svg`; `-` prints it."""
    if svg == STDOUT:
        terminal.data(picture.rstrip("\n"))
        return
    try:
        svg.write_text(picture, encoding="utf-8")
    except OSError as error:
        reason = system_reason(error)
        raise UsageError(f"cannot write `{svg}`: {reason}", code="cannot-write", help="check `--svg`") from None
    terminal.message(f"wrote {svg}")
