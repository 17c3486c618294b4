"""Answers of any size, sent piece by piece: one version, and never more than a piece of it as text in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from upshot.service import logs

if TYPE_CHECKING:
    from upshot.service.service import Service

PIECE = 20_000
"""Rows of a piece."""
PATIENCE = 30.0
"""Seconds in which a client has to take a piece: until it has taken the last one, the rows of its version are kept."""


class WholeAnswer(Response):
    """Pieces that the threads which answer make one at a time, each when the one before has been taken."""

    def __init__(self, service: Service, pieces: Iterator[bytes], headers: Mapping[str, str], form: str) -> None:
        super().__init__(None, 200, headers, form)
        del self.headers["content-length"]
        self._service, self._pieces = service, pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._service.sending_whole():
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            gone = asyncio.ensure_future(_disconnected(receive))
            try:
                while (piece := await self._service.run_piece(lambda: next(self._pieces, None))) is not None:
                    async with asyncio.timeout(PATIENCE):
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
                    if gone.done():
                        return
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            except TimeoutError:
                # An answer without its end is cut off, so that nobody takes what was sent for all there is.
                logs.service.warning("a client did not take a large answer in %g seconds", PATIENCE)
            finally:
                gone.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
