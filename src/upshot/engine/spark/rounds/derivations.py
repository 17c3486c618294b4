"""The rows that the rules of a round derive for one view, and the new ones among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from upshot.engine.spark.frames.one_task import in_one_part
from upshot.engine.spark.frames.set_frames import within, without
from upshot.engine.spark.storage.contents import Contents
from upshot.engine.spark.storage.pieces import LocalPiece, Piece, nothing, united
from upshot.engine.spark.storage.requests import BRANCHES, FrameRequest, Steps
from upshot.engine.work import ViewWork


class Derivations:
    """Heads that were derived, and what is `known` of the view: a head is new if it is, or is not, `present` there.

    Few heads are collected together with what the files have of them, and compared in the driver: so the cost follows
    the change, in one job. `large`: they are compared where they are, and only what is new is written.
    """

    def __init__(
        self, frames: Sequence[DataFrame], known: Contents, session: SparkSession, *, present: bool, large: bool
    ) -> None:
        self._frames, self._known, self._session = list(frames), known, session
        self._present, self._large = present, large
        self.derived = 0
        """Distinct heads, once the answers are there."""

    def asks(self) -> list[FrameRequest]:
        types = self._known.types
        if self._present and not self._known.count:
            return []
        if self._large:
            return [FrameRequest(self._sifted(in_one_part(united(self._frames)).distinct()), types, large=True)]
        asks = []
        looks_up = not self._known.is_local
        room = BRANCHES // 2 if looks_up else BRANCHES
        for first in range(0, len(self._frames), room):
            some = self._frames[first : first + room]
            if not looks_up:
                asks.append(FrameRequest(in_one_part(united(some)), types, repeats=True, branches=len(some)))
            else:
                derived = united(some).distinct()
                asks.append(FrameRequest(derived, types, branches=len(some)))
                asks.append(FrameRequest(self._known.hits(self._session, derived, types), types, branches=len(some)))
        return asks

    def new_rows(self, answers: Sequence[Piece]) -> Steps[Piece]:
        """The new rows, from the answers to the requests."""
        if not answers:
            return nothing(self._known.types)
        if self._large:
            self.derived = answers[0].count
            return answers[0]
        derived = answers if self._known.is_local else answers[::2]
        if all(isinstance(piece, LocalPiece) for piece in answers):
            hits = [] if self._known.is_local else [piece for piece in answers[1::2] if isinstance(piece, LocalPiece)]
            return self._compared([piece for piece in derived if isinstance(piece, LocalPiece)], hits)
        frames = [piece.frame(self._session) for piece in derived if piece.count]
        whole = united(frames) if len(frames) == 1 else united(frames).distinct()
        self.derived = sum(piece.count for piece in derived)
        (piece,) = yield [FrameRequest(self._sifted(whole), self._known.types, large=True)]
        return piece

    def _compared(self, derived: Sequence[LocalPiece], hits: Sequence[LocalPiece]) -> LocalPiece:
        rows = derived[0]
        if len(derived) > 1:
            rows = LocalPiece.of(dict.fromkeys(row for piece in derived for row in piece.rows), rows.types)
        self.derived = rows.count
        present = self._known.present(hits)
        return rows.within(present) if self._present else rows.without(present)

    def _sifted(self, frame: DataFrame) -> DataFrame:
        """Of distinct heads, those that are new."""
        known = self._known
        if not known.count:
            return frame
        sift = within if self._present else without
        return sift(frame, known.frame(self._session), known.types, small=known.is_local)


def new_rows(
    derived: Mapping[str, Sequence[DataFrame]], known: Mapping[str, Contents], session: SparkSession, work: ViewWork, *,
    present: bool = False, large: bool,
) -> Steps[dict[str, Piece]]:  # fmt: skip
    """The new rows of a round, by relation: the heads of all its rules are requested at once."""
    derivations = [
        Derivations(frames, known[name], session, present=present, large=large) for name, frames in derived.items()
    ]
    asks = [each.asks() for each in derivations]
    pieces = yield [ask for some in asks for ask in some]
    found: dict[str, Piece] = {}
    first = 0
    for name, each, some in zip(derived, derivations, asks, strict=True):
        found[name] = yield from each.new_rows(pieces[first : first + len(some)])
        first += len(some)
        work.derived += each.derived
        work.filtered += each.derived - found[name].count
    return found
