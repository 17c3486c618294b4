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
"""Seconds of silence before a progress bar appears."""


class Terminal:
    """The two streams of one command and how to write on them. rich is imported only where something is drawn."""

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
        """One or several lines of the command's result."""
        self.out.write(text + "\n")

    def message(self, text: str) -> None:
        """A remark to the person at the terminal."""
        self.err.write(text + "\n")
        self.err.flush()

    def report(self, diagnostics: Iterable[Diagnostic], *, to: IO[str] | None = None) -> None:
        """The diagnostics on stderr (or `to`): blocks of text, or one JSON object a line."""
        stream = to or self.err
        found = list(diagnostics)
        if self.json:
            stream.writelines(as_json(diagnostic) + "\n" for diagnostic in found)
        elif found:
            stream.write("\n\n".join(as_text(diagnostic, color=in_color(stream)) for diagnostic in found) + "\n")
        stream.flush()

    @property
    def console(self) -> Console:
        """A rich console on stdout: tables and styled text, plain when stdout is not a terminal, nothing in JSON."""
        if self._console is None:
            from rich.console import Console

            self._console = Console(file=self.out, highlight=False, quiet=self.json)
        return self._console

    def show(self, *drawn: RenderableType) -> None:
        """Tables and styled text on stdout; without blanks at the ends of lines unless somebody sees them drawn."""
        if self.out.isatty():
            self.console.print(*drawn)
            return
        with self.console.capture() as captured:
            self.console.print(*drawn)
        self.out.writelines(line.rstrip() + "\n" for line in captured.get().splitlines())

    @contextmanager
    def progress(self, words: str, total: float | None = None) -> Iterator[Bar]:
        """A bar on stderr that shows itself after two seconds, on a terminal only, and leaves no trace."""
        bar = Bar(words, total, visible=self.err.isatty() and not self.json)
        with bar:
            yield bar


def in_color(stream: IO[str]) -> bool:
    """True when the stream is a terminal that can show colors and colors are not disabled (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class Bar:
    """Counts work; draws once the work has taken longer than `PATIENCE`."""

    def __init__(self, words: str, total: float | None, *, visible: bool) -> None:
        self._words = words
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

    def say(self, words: str, total: float | None = None) -> None:
        """Starts the next phase of the same piece of work under new words."""
        with self._lock:
            self._words, self._total, self._done = words, total, 0.0
            if self._progress is not None and self._task is not None:
                self._progress.reset(self._task, description=words, total=total)

    def label(self, words: str) -> None:
        """Changes the words beside the bar and nothing else."""
        with self._lock:
            self._words = words
            if self._progress is not None and self._task is not None:
                self._progress.update(self._task, description=words)

    def _show(self) -> None:
        with self._lock:
            if not self._visible:
                return
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

            columns: tuple[Any, ...] = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
            self._progress = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
            self._task = self._progress.add_task(self._words, total=self._total, completed=int(self._done))
            self._progress.start()


STDOUT = Path("-")


def draw(terminal: Terminal, svg: Path, picture: str) -> None:
    """Writes the picture where `--svg` says, and says so; `-` prints it."""
    if svg == STDOUT:
        terminal.data(picture.rstrip("\n"))
        return
    try:
        svg.write_text(picture, encoding="utf-8")
    except OSError as error:
        reason = system_reason(error)
        raise UsageError(f"cannot write `{svg}`: {reason}", code="cannot-write", help="check `--svg`") from None
    terminal.message(f"wrote {svg}")
