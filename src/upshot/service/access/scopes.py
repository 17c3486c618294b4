"""The scopes of a token: the relations its holder may read and change."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from upshot.core.errors import unknown_relation
from upshot.service.wire.errors import RequestError, not_found

EVERYTHING = "*"
_LONGEST_NAME = 60
"""The longest name, in characters, that an answer repeats."""

STANDING = re.compile(r".+_where_[0-9a-f]{12}")
"""Names of views that earlier versions defined for followed selections. They are hidden."""


@dataclass(frozen=True, slots=True)
class Scopes:
    """`read` and `write` name relations, views, constraints and rules; `*` stands for all of them."""

    name: str
    read: frozenset[str] = frozenset()
    write: frozenset[str] = frozenset()
    subscribe: bool = False
    admin: bool = False

    def may_read(self, relation: str) -> bool:
        if "_where_" in relation and STANDING.fullmatch(relation):
            return False
        return EVERYTHING in self.read or relation in self.read

    def may_write(self, relation: str) -> bool:
        return EVERYTHING in self.write or relation in self.write

    def may_read_all(self, relations: Iterable[str]) -> bool:
        return all(map(self.may_read, relations))

    @property
    def reads_everything(self) -> bool:
        return EVERYTHING in self.read

    def require_read(self, relation: str, known: Collection[str] | None = None) -> None:
        """`not-found` if the relation may not be read, with the same message as for one that is not `known`. A token
        that reads everything gets a suggestion."""
        if not self.may_read(relation):
            raise not_found()
        if known is not None and relation not in known:
            raise self._unknown(404, "not-found", relation, known) if self.reads_everything else not_found()

    def require_write(self, relation: str, known: Collection[str] | None = None) -> None:
        """`forbidden` if the relation may not be changed, with the same message as for one that is not `known`, unless
        all relations may be changed."""
        if not self.may_write(relation):
            raise _forbidden("change this relation, if there is one")
        if known is not None and relation not in known:
            if EVERYTHING not in self.write:
                raise _forbidden("change this relation, if there is one")
            raise self._unknown(400, "unknown-relation", relation, known)

    def _unknown(self, status: int, code: str, relation: str, known: Collection[str]) -> RequestError:
        """The error for an unknown name, with a similar readable name."""
        shown = relation if len(relation) <= _LONGEST_NAME else ""
        hint = "`GET /program` lists what this token may read"
        error = unknown_relation(shown, filter(self.may_read, known), otherwise=hint, code=code)
        return RequestError(status, error.code, error.message, help=error.help)

    def require_subscribe(self) -> None:
        if not self.subscribe:
            raise _forbidden("follow changes")


ANYTHING = Scopes("local", frozenset({EVERYTHING}), frozenset({EVERYTHING}), subscribe=True, admin=True)
"""The scopes of loopback requests to a server without tokens."""


def _forbidden(action: str) -> RequestError:
    hint = "request a token with more scopes: `upshot token NAME --read … --write …`"
    return RequestError(403, "forbidden", f"this token may not {action}", help=hint)
