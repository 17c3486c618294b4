"""Errors of a process that ran out of what the system gives it."""

from __future__ import annotations

import errno

_FILES = (errno.EMFILE, errno.ENFILE)
_WORDS = {
    "Too many open files": "file descriptors",
    "annot allocate memory": "memory",
    "failed to map segment": "memory",
}


def exhausted(error: BaseException | None) -> str:
    """What ran out, `file descriptors` or `memory`; nothing for any other error.

    >>> exhausted(OSError(errno.EMFILE, "Too many open files")), exhausted(MemoryError()), exhausted(ValueError())
    ('file descriptors', 'memory', '')
    """
    while error is not None:
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            return "memory"
        if isinstance(error, OSError) and error.errno in _FILES:
            return "file descriptors"
        if isinstance(error, ImportError):
            # A library that could not be loaded only says so.
            for words, what in _WORDS.items():
                if words in str(error):
                    return what
        error = error.__cause__ or error.__context__
    return ""
