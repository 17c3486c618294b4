"""Folders that no record speaks of any more."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from upshot.store.folders import remove_folder

log = logging.getLogger("upshot.store")


class UnusedFolders:
    """Removes folders, at once or when nobody copies the store any more. What cannot be removed is removed when the
    store is opened again. Any thread may call."""

    def __init__(self, remove: Callable[[Path], None] = remove_folder) -> None:
        self._remove_one = remove
        self._guard = threading.Lock()
        self._waiting: list[Path] = []
        self._holders = 0

    def add(self, folders: Iterable[Path]) -> None:
        """These are not needed any more."""
        with self._guard:
            self._waiting += folders
        self._remove()

    @contextmanager
    def held(self) -> Iterator[None]:
        """A block in which every folder stays."""
        with self._guard:
            self._holders += 1
        try:
            yield
        finally:
            with self._guard:
                self._holders -= 1
            self._remove()

    def _remove(self) -> None:
        with self._guard:
            if self._holders:
                return
            folders, self._waiting = self._waiting, []
        for folder in folders:
            try:
                self._remove_one(folder)
            except OSError as error:
                log.warning("`%s` stays until the store is opened again: %s", folder.name, error)
