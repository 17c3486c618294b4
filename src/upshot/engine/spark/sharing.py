"""What workers are given of relations they hold whole: the files of tables where they lie, the rest beside them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from upshot.core.types import Kind, Type
from upshot.engine.spark.contents import Contents
from upshot.engine.spark.pieces import FilePiece, LocalPiece, Piece
from upshot.engine.spark.scratch import Scratch
from upshot.engine.spark.shard_plan import SharedRelation
from upshot.engine.spark.shared_file import NO_ROWS, SharedRows, shared_table
from upshot.engine.spark.tables import Table
from upshot.spark.types import framed

MOST_SHARED = 1 << 30
"""The most bytes of relations that every worker holds whole."""

_TEXT = 24
"""What a text is taken to need."""

_numbers = itertools.count()

Changes = dict[str, tuple[SharedRows, ...]]


def new_key() -> str:
    """What tells a plan of one engine from all others on the same workers."""
    return f"{os.getpid()}-{os.urandom(4).hex()}-{next(_numbers)}"


def bytes_of(tables: Iterable[Table]) -> int:
    """About what the rows of the tables take."""
    return sum(table.size * _width(table.types) for table in tables)


def _width(types: Sequence[Type]) -> int:
    """Bytes of a row."""
    return sum(_TEXT if type.kind is Kind.SYMBOL else 8 for type in framed(types))


class Sharing:
    """Relations as workers know them, described again only as far as they change, and the files written for that."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._described: dict[str, _Described] = {}
        self._moving: list[Path] = []
        """Files with the last transaction's changes."""

    def files(self) -> Iterator[Path]:
        """What was written here."""
        yield from self._moving
        for described in self._described.values():
            yield from described.files()

    def release(self) -> None:
        self._drop_moving()
        for described in self._described.values():
            described.drop()
        self._described.clear()

    def _drop_moving(self) -> None:
        for path in self._moving:
            path.unlink(missing_ok=True)
        self._moving.clear()

    # ---- descriptions --------------------------------------------------------------------------------------------

    def relations(self, contents: Mapping[str, Contents]) -> dict[str, SharedRelation]:
        return {name: self._relation(name, each) for name, each in contents.items()}

    def changes(self, tables: Mapping[str, Table]) -> tuple[Changes, Changes]:
        """What the open transaction inserts and what it deletes; that of the last one is forgotten."""
        self._drop_moving()
        inserted = {name: tuple(self._pieces(table.inserted, self._moving)) for name, table in tables.items()}
        deleted = {name: tuple(self._pieces(table.deleted, self._moving)) for name, table in tables.items()}
        return inserted, deleted

    def rows(self, pieces: Mapping[str, Piece]) -> Changes:
        """Rows for one task; those of the task before it are forgotten."""
        self._drop_moving()
        return {name: tuple(self._pieces(piece, self._moving)) for name, piece in pieces.items()}

    def _relation(self, name: str, contents: Contents) -> SharedRelation:
        """The relation as it was described before, as far as it is the same."""
        known = self._described.get(name)
        if known is not None and not all(path.exists() for path in known.files()):
            known = None
        if known is not None and known.contents is contents:
            return known.relation
        files: list[Path] = []
        overlay: list[Path] = []
        if known is not None and known.contents.same_base(contents):
            origin, base, files = known.relation.origin, known.relation.base, known.base_files
        else:
            origin, base = f"{name}-{next(_numbers)}", tuple(self._parts_of(contents, files))
        relation = SharedRelation(
            origin, str(next(_numbers)), base, contents.stored_count,
            self._given(contents.come, overlay), self._given(contents.gone, overlay),
        )  # fmt: skip
        if known is not None:
            known.drop(keep=files)
        self._described[name] = _Described(contents, relation, files, overlay)
        return relation

    def _parts_of(self, contents: Contents, files: list[Path]) -> Iterable[tuple[bool, SharedRows]]:
        """What lies below the changes in the driver, from the bottom."""
        if contents.below is not None:
            yield from self._parts_of(contents.below, files)
            yield False, self._given(contents.below.gone, files)
            yield True, self._given(contents.below.come, files)
        if contents.minus is not None:
            yield from ((False, rows) for rows in self._pieces(contents.minus, files))
        if contents.files is not None:
            yield from ((True, rows) for rows in self._pieces(contents.files, files))

    def _pieces(self, piece: Piece, files: list[Path]) -> list[SharedRows]:
        match piece:
            case LocalPiece():
                return [self._given(piece, files)]
            case FilePiece():
                return [SharedRows(piece.paths, piece.names)]
            case _:
                return [rows for part in piece.parts for rows in self._pieces(part, files)]

    def _given(self, piece: LocalPiece, files: list[Path]) -> SharedRows:
        """Rows of the driver, by way of a file if they are many."""
        if not piece.count:
            return NO_ROWS
        path = self._scratch.new("shared")
        shared = shared_table(piece.table, path)
        if shared.path is not None:
            files.append(path)
        return SharedRows(table=shared)


@dataclass(frozen=True, slots=True)
class _Described:
    """A relation as the workers know it, and the files that were written for that."""

    contents: Contents
    relation: SharedRelation
    base_files: list[Path]
    overlay_files: list[Path]

    def files(self) -> Iterator[Path]:
        yield from self.base_files
        yield from self.overlay_files

    def drop(self, keep: Collection[Path] = ()) -> None:
        for path in self.files():
            if path not in keep:
                path.unlink(missing_ok=True)
