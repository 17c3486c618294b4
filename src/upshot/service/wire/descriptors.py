"""File descriptors: connections may take so many that the store and the program itself do not run out of them."""

from __future__ import annotations

import resource

from upshot.core.errors import UsageError

RESERVED = 64
"""Descriptors for the store, for webhooks and for what is loaded later."""
LEAST = 36
"""What a service without clients takes, and some of its clients."""


def most_connections(subscribers: int) -> int:
    """How many connections may be open. The limit of the process is raised, where it may be, so that there can be so
    many subscribers. `too-few-descriptors` if there are not even enough for the service itself."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = subscribers + 4 * RESERVED
    if soft != resource.RLIM_INFINITY and soft < wanted:
        raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        soft = raised
        if soft < LEAST:
            message = f"a service needs {LEAST} file descriptors; the limit of this process is {soft}"
            raise UsageError(message, code="too-few-descriptors", help="raise the limit: `ulimit -n 1024`")
    return allowed(wanted if soft == resource.RLIM_INFINITY else soft)


def allowed(limit: int) -> int:
    """Of so many descriptors those for connections.

    >>> allowed(1024), allowed(100)
    (960, 25)
    """
    return max(limit - RESERVED if limit >= 2 * RESERVED else limit // 4, 1)
