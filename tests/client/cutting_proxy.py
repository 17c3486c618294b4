"""A proxy that cuts connections at random bytes, as networks do."""

from __future__ import annotations

import random
import socket
import threading
import time
from contextlib import suppress


class CuttingProxy:
    """Forwards to a port. While it cuts, each connection ends after a random number of bytes of the answer; `cut_all`
    ends those that are open now. What it accepted while nobody listened behind it is closed."""

    def __init__(self, target: int, dice: random.Random, *, longest: int = 3000) -> None:
        self.target, self.cutting = target, True
        self._dice, self._longest = dice, longest
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target), timeout=5)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            with self._guard:
                self._open |= {client, server}
            bound = self._dice.randrange(1, self._longest) if self.cutting else None
            pause = 0.0 if self._dice.random() < 0.5 else 0.0005
            threading.Thread(target=self._pump, args=(client, server, None, 0.0), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, bound, pause), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, bound: int | None, pause: float) -> None:
        left = bound
        try:
            while left is None or left > 0:
                data = source.recv(4096 if left is None else min(left, 512))
                if not data:
                    break
                sink.sendall(data)
                left = left if left is None else left - len(data)
                time.sleep(pause)
        except OSError:
            pass
        self._end(source, sink)

    def _end(self, *sockets: socket.socket) -> None:
        with self._guard:
            self._open.difference_update(sockets)
        for each in sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def cut_all(self) -> None:
        with self._guard:
            sockets = list(self._open)
        self._end(*sockets)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut_all()

    def __enter__(self) -> CuttingProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
