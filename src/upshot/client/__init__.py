"""A client of a service: transactions, queries, and copies of views that stay exactly current.

Read `client` (the calls), `requests` and `transport` (repetition, connections), `errors`; then `local_copy` (a copy),
`stream` (its steps over several connections), `event_stream` and `events` (parsing), `saved_copy` (a copy in a file).

>>> from upshot.client import Client                                           # doctest: +SKIP
>>> with Client("http://127.0.0.1:8000") as client:                            # doctest: +SKIP
...     client.transaction(insert={"edge": [(1, 2)]})
...     with client.follow("closure", on_change=print) as copy:
...         copy.rows, copy.version
"""

from __future__ import annotations

import logging

from upshot.client.client import Answer, AnswerPage, Client
from upshot.client.events import Change
from upshot.client.local_copy import ChangeFeed, Copy
from upshot.client.outcomes import Outcome
from upshot.client.realizations import Formula, Placeholder, Realization, Realizations
from upshot.client.relations import Program

# An error that ends a copy is raised to its reader; it is printed only where logging is set up.
logging.getLogger("upshot.client").addHandler(logging.NullHandler())

__all__ = [
    "Answer", "AnswerPage", "Change", "ChangeFeed", "Client", "Copy", "Formula", "Outcome", "Placeholder", "Program",
    "Realization", "Realizations",
]  # fmt: skip
