"""The monitoring service: views over HTTP, and their exact changes to subscribers.

requests ─► gate ─► scopes ─┬─► reader threads (one version per answer, in bounded time)
             │              ├─► queue ─► writer (one thread): group of transactions ─► one fsync ─► answers ─► one task
             │              └─► streams, webhooks ◄─ hub (one thread, encodes once) ◄─ commits
             └─ size limit, Host check, error format, log, metrics

A service is one process with one event loop (`app.py`, `service.py`). One thread changes the database
(`writing/writer.py`): it commits the transactions of a bounded queue in groups (`database/group.py`), each transaction
as a version. A group is one write to the log; before that write, no result is visible and no request is answered.
Between two groups the thread runs one task: a what-if, or a slice of a search for realizations
(`writing/searches.py`). A slice ends when a transaction waits; after the third restart a search continues in a copy of
the database (`database/durable/past_version.py`). Functions that rules call after a commit have a time limit
(`active/caller.py`). Reads run on a few threads with a time limit (`engine/time_limit.py`).

A commit puts itself into the queue of the hub (`feed/hub.py`), whose thread encodes each change once for all followers
of the same selection. A follower has a cursor in a ring of events; one that falls behind gets its cursor and resumes
from the log, as webhooks do. So the cost of a commit does not depend on slow clients. `access/disclosure.py` decides
which details of an error a token sees; all other answers check `access/scopes.py` for each name. The page at `/` is a
client like any other. (docs/decisions/0005-the-page.md)
"""
