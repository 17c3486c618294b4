"""The rows given to a query that its clauses can match: those with the constants that stand in their literals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from upshot.check.names.variables import atoms
from upshot.check.program import Clause
from upshot.core.schema import Schema
from upshot.engine.local.storage.codec import Codec, Misfit
from upshot.syntax.ast import Atom, Constant

Codes = NDArray[np.int64]
_FEW = 1_000
"""Rows that are not worth a look."""


def selected_rows(
    given: Mapping[str, tuple[Schema, Codes]], clauses: Iterable[Clause], codec: Codec
) -> dict[str, tuple[Schema, Codes]]:
    """The given rows without those that no literal can match."""
    found = dict(given)
    if all(len(codes) <= _FEW for _, codes in given.values()):
        return found
    used: dict[str, list[Atom]] = {}
    for clause in clauses:
        for literal in clause.body:
            for atom in atoms(literal):
                used.setdefault(atom.relation, []).append(atom)
    for name, (schema, codes) in given.items():
        if len(codes) > _FEW:
            found[name] = (schema, _matching(codes, schema, used.get(name, ()), codec))
    return found


def _matching(codes: Codes, schema: Schema, literals: Iterable[Atom], codec: Codec) -> Codes:
    wanted = np.zeros(len(codes), np.bool_)
    for atom in literals:
        fits: NDArray[np.bool_] | None = None
        for place, (term, column) in enumerate(zip(atom.args, schema.columns, strict=True)):
            if isinstance(term, Constant) and term.value is not None:
                try:
                    same = codes[:, place] == codec.encoder(column.type)(term.value)
                except Misfit:
                    same = np.zeros(len(codes), np.bool_)
                fits = same if fits is None else fits & same
        if fits is None:
            return codes
        wanted |= fits
    return codes[wanted]
