"""The rows of views by the part that needs them, beside the views' own files, as long as those are what they were."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from upshot.engine.spark.contents import Contents
from upshot.engine.spark.exchange_task import Files, Held
from upshot.engine.spark.pieces import Piece
from upshot.engine.spark.sharing import Sharing


class PartCopies:
    """What the driver has of a view goes to all parts, and each takes its own; what is in files is handed out once."""

    def __init__(self) -> None:
        self._known: dict[str, _Copied] = {}

    def folders(self) -> Iterator[Path]:
        return (copied.folder for copied in self._known.values() if copied.folder is not None)

    def release(self) -> None:
        for folder in self.folders():
            shutil.rmtree(folder, ignore_errors=True)
        self._known.clear()

    def missing(self, contents: Mapping[str, Contents]) -> list[str]:
        """The views whose files have not been handed out as they are."""
        return [view for view, each in contents.items() if not each.is_local and not self._has(view, each)]

    def _has(self, view: str, contents: Contents) -> bool:
        known = self._known.get(view)
        return known is not None and known.contents.same_base(contents) and known.folder.exists()

    def add(self, view: str, contents: Contents, folder: Path, files: Files) -> None:
        """The files of the contents, as they were handed out."""
        before = self._known.pop(view, None)
        if before is not None:
            shutil.rmtree(before.folder, ignore_errors=True)
        self._known[view] = _Copied(contents, folder, files)

    def held(self, contents: Mapping[str, Contents], over: Mapping[str, Piece], sharing: Sharing) -> dict[str, Held]:
        """The views as parts come to hold them, without the rows that are `over`."""
        changes: dict[str, Piece] = {}
        for view, each in contents.items():
            changes[f"{view}-"], changes[f"{view}+"], changes[view] = each.gone, each.come, over[view]
        given = sharing.rows(changes)
        found = {}
        for view, each in contents.items():
            turns = [(sign == "+", rows) for sign in ("-", "+", "") for rows in given[f"{view}{sign}"]]
            found[view] = Held({} if each.is_local else self._known[view].files, tuple(turns))
        return found


@dataclass(frozen=True, slots=True)
class _Copied:
    contents: Contents
    folder: Path
    files: Files


def by_part(listed: Iterable[tuple[int, str]], folder: Path) -> Files:
    """Files by the part that needs them, from a list of parts and names."""
    found: dict[int, list[Path]] = {}
    for part, name in listed:
        found.setdefault(part, []).append(folder / name)
    return found
