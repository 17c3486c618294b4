"""The rows of a relation at one moment: files that never change, and small changes to them in the driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from upshot.core.rows import Row
from upshot.core.types import Type
from upshot.engine.spark.frames.one_task import reads_files
from upshot.engine.spark.frames.set_frames import within, without
from upshot.engine.spark.storage.pieces import FilePiece, LocalPiece, MixedPiece, Piece, Types, nothing, united
from upshot.spark.types import column_names


class Contents:
    """A set of rows, never changed: `changed` gives another one that shares the files.

    From the bottom: the rows of `below`, without those of `minus`, with those of `files`, without `gone`, with `come`.
    All rows of `gone` are in what lies under them, none of `come` is.
    """

    __slots__ = (
        "_frame", "_numbered", "_stored", "below", "come", "count", "files", "gone", "minus", "types",
    )  # fmt: skip

    def __init__(
        self,
        types: Sequence[Type],
        *,
        below: Contents | None = None,
        minus: Piece | None = None,
        files: FilePiece | MixedPiece | None = None,
        gone: LocalPiece | None = None,
        come: LocalPiece | None = None,
    ) -> None:
        self.types: Types = tuple(types)
        self.below, self.minus, self.files = below, minus, files
        self.gone = gone if gone is not None else nothing(types)
        self.come = come if come is not None else nothing(types)
        self.count = self.stored_count - self.gone.count + self.come.count
        self._frame: tuple[Any, DataFrame] | None = None
        self._stored: tuple[Any, DataFrame] | None = None
        self._numbered: dict[Row, Row] | None = None

    @classmethod
    def of(cls, piece: Piece) -> Contents:
        """The rows of a piece."""
        return cls(piece.types).changed(nothing(piece.types), piece)

    # ---- what is there -------------------------------------------------------------------------------------

    @property
    def stored_count(self) -> int:
        """The rows in files, before what came and went in the driver."""
        below = self.below.count if self.below is not None else 0
        minus = self.minus.count if self.minus is not None else 0
        return below - minus + (self.files.count if self.files is not None else 0)

    @property
    def is_local(self) -> bool:
        """Test whether all rows are in the driver."""
        return self.files is None and self.below is None

    @property
    def overlay(self) -> int:
        """The number of rows in the driver."""
        return self.gone.count + self.come.count

    @property
    def layers(self) -> int:
        return 1 + (self.below.layers if self.below is not None else 0)

    def folders(self) -> Iterator[str]:
        """The folders that must stay as long as this does."""
        for part in (self.below, self.minus, self.files):
            if part is not None:
                yield from part.folders()

    def piece(self) -> Piece | None:
        """The rows as a piece, if nothing was taken away from the files."""
        if self.is_local:
            return self.come
        if self.below is not None or self.minus is not None or self.gone.count:
            return None
        assert self.files is not None
        if not self.come.count:
            return self.files
        parts = self.files.parts if isinstance(self.files, MixedPiece) else (self.files,)
        return MixedPiece((*parts, self.come), self.types)

    def as_piece(self) -> Piece:
        """The rows as a piece; nothing was ever taken away from the files."""
        piece = self.piece()
        assert piece is not None
        return piece

    def changes(self) -> Iterator[tuple[bool, Piece]]:
        """Pieces that are inserted and deleted in turn, from the bottom, until all rows are there."""
        if self.below is not None:
            yield from self.below.changes()
        if self.minus is not None:
            yield False, self.minus
        if self.files is not None:
            yield True, self.files
        yield from ((insert, rows) for insert, rows in ((False, self.gone), (True, self.come)) if rows.count)

    def narrowed(self, types: Sequence[Type]) -> Contents:
        """Only the first columns, by which alone the rows are distinct."""
        return Contents(
            types,
            below=self.below.narrowed(types) if self.below is not None else None,
            minus=self.minus.narrowed(types) if self.minus is not None else None,
            files=self.files.narrowed(types) if self.files is not None else None,
            gone=self.gone.narrowed(types),
            come=self.come.narrowed(types),
        )

    # ---- frames --------------------------------------------------------------------------------------------

    def frame(self, session: SparkSession, types: Sequence[Type] | None = None) -> DataFrame:
        """All rows; `types`: only as many leading columns."""
        if not self.is_local:
            reads_files()
        if self._frame is None or self._frame[0] is not session:
            self._frame = session, self._whole(session)
        frame = self._frame[1]
        if types is None or len(types) == len(self.types):
            return frame
        return frame.select(*column_names(len(types)))

    def _whole(self, session: SparkSession) -> DataFrame:
        if self.is_local:
            return self.come.frame(session)
        frame = self.stored(session)
        if self.gone.count:
            frame = without(frame, self.gone.frame(session), self.types, small=True)
        return frame.unionAll(self.come.frame(session)) if self.come.count else frame

    def stored(self, session: SparkSession) -> DataFrame:
        """The rows in files, before what came and went in the driver."""
        assert not self.is_local
        reads_files()
        if self._stored is not None and self._stored[0] is session:
            return self._stored[1]
        frames = []
        if self.below is not None:
            frame = self.below.frame(session)
            if self.minus is not None:
                small = isinstance(self.minus, LocalPiece)
                frame = without(frame, self.minus.frame(session), self.types, small=small)
            frames.append(frame)
        if self.files is not None:
            frames.append(self.files.frame(session))
        self._stored = session, united(frames)
        return self._stored[1]

    def hits(
        self, session: SparkSession, keys: DataFrame, types: Sequence[Type], columns: Sequence[int] | None = None
    ) -> DataFrame:
        """The rows in files that have one of a few keys in these columns (by default the first ones)."""
        return within(self.stored(session), keys, types, columns, small=True)

    # ---- rows in the driver ----------------------------------------------------------------------------------

    def present(self, hits: Iterable[LocalPiece] = ()) -> Present:
        """The rows to probe, once the files have returned their matches."""
        return Present(self, hits)

    def numbered(self) -> dict[Row, Row]:
        """The rows of `come` by all their columns but the last, which is how often they are derived."""
        if self._numbered is None:
            self._numbered = {row[:-1]: row for row in self.come.rows}
        return self._numbered

    # ---- change ----------------------------------------------------------------------------------------------

    def changed(self, deleted: Piece, inserted: Piece) -> Contents:
        """Without rows that are there, then with rows that are not."""
        if isinstance(deleted, LocalPiece) and isinstance(inserted, LocalPiece):
            return self._overlaid(deleted, inserted)
        if isinstance(deleted, LocalPiece):
            return self._overlaid(deleted, nothing(self.types))._filed(inserted)
        local = inserted if isinstance(inserted, LocalPiece) else nothing(self.types)
        files = None if isinstance(inserted, LocalPiece) else inserted
        return Contents(self.types, below=self, minus=deleted, files=files, come=local)

    def _overlaid(self, deleted: LocalPiece, inserted: LocalPiece) -> Contents:
        if not deleted.count and not inserted.count:
            return self
        back = inserted.within(self.gone.places) if self.gone.count else nothing(self.types)
        come = self.come.without(deleted.places) if deleted.count else self.come
        gone = self.gone.plus(deleted.without(self.come.places)) if not self.is_local else self.gone
        if back.count:
            gone, inserted = gone.without(back.places), inserted.without(back.places)
        return Contents(
            self.types, below=self.below, minus=self.minus, files=self.files, gone=gone, come=come.plus(inserted)
        )

    def _filed(self, inserted: Piece) -> Contents:
        """With further files."""
        assert not isinstance(inserted, LocalPiece)
        if self.is_local and self.come.count:
            return Contents(self.types, files=inserted, come=self.come)
        if self.below is None and not self.gone.count:
            if self.files is None:
                return Contents(self.types, files=inserted, come=self.come)
            if isinstance(self.files, FilePiece) and isinstance(inserted, FilePiece):
                both = self.files.plus(inserted)
                if both is not None:
                    return Contents(self.types, files=both, come=self.come)
        return Contents(self.types, below=self, files=inserted)


class Present:
    """A container of rows: those of contents, as far as they are in the driver or among the hits."""

    def __init__(self, contents: Contents, hits: Iterable[LocalPiece]) -> None:
        self._gone, self._come = contents.gone.places, contents.come.places
        self._hits = [piece.places for piece in hits]

    def __contains__(self, row: object) -> bool:
        if row in self._come:
            return True
        return row not in self._gone and any(row in places for places in self._hits)
