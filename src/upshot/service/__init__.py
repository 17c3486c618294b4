"""The monitoring service: views over HTTP, and their exact changes to subscribers.

requests ─► gate ─► scopes ─┬─► reader threads (one version an answer, in bounded time)
             │              ├─► queue ─► writer (one thread): group of transactions ─► one fsync ─► answers ─► one task
             │              └─► streams, webhooks ◄─ hub (one thread, encodes once) ◄─ commits
             └─ size, name, one shape of errors, log, metrics

One process, one event loop (`service/app.py`). One thread changes the database (`writer.py`): the transactions in its
bounded queue are committed as a group (`database/group.py`), each transaction a version of its own. The log is forced
once, and nobody sees or is answered anything before that. Between two groups it runs one task: a what-if, or a slice of
a search for realizations (`searches.py`), which gives way as soon as somebody waits, and goes on in a copy of its own
after the third attempt (`database/durable/past_version.py`). Functions that rules call after a commit are waited for
only so long (`active/caller.py`). Reads run on a few threads (`engine/time_limit.py`: the kernel and the search look at
the clock where they can stop).

A commit only queues itself for the hub; the hub's thread selects and encodes, once for all who follow the same part of
a view, and the event loop wakes those who wait. A client has a place in a ring; one that falls behind it is told its
cursor and goes on from the log, which is also where webhooks read. So a slow client costs a commit nothing. What an
error may say to whom is decided in one place (`disclosure.py`); everything else asks `scopes.py` name by name. The page
at `/` is a client like others. (docs/decisions/0005-the-page.md)
"""
