"""A served database in a process of its own: `python -m bench.served FOLDER`; its port is the first line of stdout."""

from __future__ import annotations

import sys
from urllib.parse import urlsplit

import upshot
from upshot.service.server import listen, serve
from upshot.service.service import Service
from upshot.service.settings import Settings

PROGRAM = """
.decl reading(n: number, sent: number)
.decl seen(n: number, sent: number)
seen(N, S) :- reading(N, S).
"""


def main(argv: list[str]) -> int:
    (folder,) = argv
    database = upshot.connect(folder)
    database.define(PROGRAM)
    with database.transaction() as tx:
        tx.insert("reading", [(-1, 0)])
    service = Service(database, Settings(port=0))
    serve(service, listen(service.settings), _listening)
    return 0


def _listening(address: str) -> None:
    sys.stdout.write(f"{urlsplit(address).port}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
