"""Steps that Python runs for the kernel: functors on text, floats, decimals; tests and orderings on text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upshot.core.types import Kind, Type
from upshot.engine.local.kernel.layout import ARITHMETIC
from upshot.engine.local.storage.codec import Codec, Misfit, decode_floats, encode_floats, null_code
from upshot.engine.local.storage.storage import Table
from upshot.engine.time_limit import check_time
from upshot.engine.user_functions import unfitting
from upshot.plan.rule_plan import Check, Compare, Compute, Operand, Step
from upshot.syntax.ast import Call, Constant, Variable
from upshot.values.conditions import COMPARISONS, TESTS
from upshot.values.functions import FUNCTIONS
from upshot.values.functors import is_functor
from upshot.values.records import overflow

Codes = NDArray[np.int64]
Columns = dict[str, Codes]


def needs_python(step: Step, types: Mapping[str, Type]) -> bool:
    """Test whether the kernel cannot run the step."""
    match step:
        case Compute(target, Call(name, args)):
            kinds = {
                types[target].kind,
                *(operand_type(a, types).kind for a in args if isinstance(a, Variable | Constant)),
            }
            return kinds != {Kind.NUMBER} or name not in ARITHMETIC or len(args) > 2
        case Compare(op, left, right):
            first, second = operand_type(left, types), operand_type(right, types)
            return first.scale != second.scale or (first.in_dictionary and op not in ("=", "!="))
        case Check(test):
            return bool(test.args) and not TESTS[test.name].sees_null
        case _:
            return False


def operand_type(operand: Operand, types: Mapping[str, Type]) -> Type:
    if isinstance(operand, Variable):
        return types[operand.name]
    assert operand.type is not None
    return operand.type


@dataclass(frozen=True, slots=True)
class Extern:
    """Steps between two tables: the kernel writes rows of `inputs` to one; the rows that pass, with the computed
    columns appended, are written to the other."""

    inputs: tuple[str, ...]
    steps: tuple[Step, ...]
    types: Mapping[str, Type] = field(hash=False)
    input: Table
    output: Table

    def evaluate(self, codec: Codec) -> None:
        """Move the rows from the input to the output."""
        rows = self.input.take_scratch()
        columns: Columns = {name: rows[:, i].copy() for i, name in enumerate(self.inputs)}
        count = len(rows)
        for step in self.steps if count else ():
            columns, count = _apply(codec, step, self.types, columns, count)
        names = [*self.inputs, *(step.target for step in self.steps if isinstance(step, Compute))]
        answer = np.empty((count, len(names)), np.int64)
        for i, name in enumerate(names if count else ()):
            answer[:, i] = columns[name]
        self.output.fill_scratch(answer)


def _apply(codec: Codec, step: Step, types: Mapping[str, Type], columns: Columns, count: int) -> tuple[Columns, int]:
    match step:
        case Compute(target, Call(name, args)):
            operands = [a for a in args if isinstance(a, Variable | Constant)]
            if not types[target].nullable:
                for operand in operands:
                    columns, count = _present(operand, types, columns, count)
            # A literal joined with the value may have columns of fewer digits, where longer values match nothing.
            result = types[target].widest()
            return columns | {target: _compute(codec, name, operands, result, types, columns, count)}, count
        case Compare(op, left, right):
            keep = _compare(codec, op, left, right, types, columns, count)
        case Check(test, negated):
            values = [_values(codec, a, types, columns, count) for a in test.args if isinstance(a, Variable | Constant)]
            known = TESTS[test.name]
            holds = partial(known.python, pause=check_time) if known.pauses else known.python
            keep = np.array(
                [(None not in row and holds(*row)) != negated for row in zip(*values, strict=True)], dtype=np.bool_
            )
        case _:
            raise AssertionError(step)
    return _select(columns, keep, count)


def _select(columns: Columns, keep: NDArray[np.bool_], count: int) -> tuple[Columns, int]:
    return {name: codes[keep] for name, codes in columns.items()}, int(keep.sum()) if count else 0


def _present(operand: Operand, types: Mapping[str, Type], columns: Columns, count: int) -> tuple[Columns, int]:
    """The rows in which the operand is not NULL."""
    if isinstance(operand, Constant) or not types[operand.name].nullable:
        return columns, 0 if isinstance(operand, Constant) and operand.value is None else count
    return _select(columns, columns[operand.name] != null_code(types[operand.name]), count)


def _may_be_null(operands: list[Operand], types: Mapping[str, Type]) -> bool:
    return any(operand_type(o, types).nullable for o in operands)


def _compute(
    codec: Codec,
    name: str,
    operands: list[Operand],
    result: Type,
    types: Mapping[str, Type],
    columns: Columns,
    count: int,
) -> Codes:
    if is_functor(name):
        values = [_values(codec, o, types, columns, count) for o in operands]
        found = codec.functions.values(name, list(zip(*values, strict=True)))
        encode = codec.encoder(result)
        try:
            return np.array([encode(each) for each in found], np.int64)
        except Misfit as misfit:
            raise unfitting(name, found, f"do not all fit: {misfit}") from misfit
    kind = operand_type(operands[0], types).kind
    if (vectorized := FUNCTIONS[name].meanings[kind].numpy) and not _may_be_null(operands, types):
        floats = [decode_floats(_codes(codec, o, types, columns, count)) for o in operands]
        with np.errstate(all="ignore"):
            return encode_floats(np.asarray(getattr(np, vectorized)(*floats), np.float64))
    values = [_values(codec, o, types, columns, count) for o in operands]
    call = FUNCTIONS[name].call(kind, result)
    encode = codec.encoder(result)
    try:
        computed = [encode(None if None in row else call(*row)) for row in zip(*values, strict=True)]
        return np.array(computed, np.int64)
    except Misfit as misfit:
        raise overflow(name, result) from misfit


def _compare(
    codec: Codec, op: str, left: Operand, right: Operand, types: Mapping[str, Type], columns: Columns, count: int
) -> NDArray[np.bool_]:
    first = _values(codec, left, types, columns, count)
    second = _values(codec, right, types, columns, count)
    holds = COMPARISONS[op].python
    pairs = zip(first, second, strict=True)
    return np.array([a is not None and b is not None and holds(a, b) for a, b in pairs], dtype=np.bool_)


def _codes(codec: Codec, operand: Operand, types: Mapping[str, Type], columns: Columns, count: int) -> Codes:
    if isinstance(operand, Variable):
        return columns[operand.name]
    return np.full(count, codec.encoder(operand_type(operand, types))(operand.value), np.int64)


def _values(codec: Codec, operand: Operand, types: Mapping[str, Type], columns: Columns, count: int) -> list[Any]:
    if isinstance(operand, Variable):
        return codec.decode(columns[operand.name], types[operand.name])
    return [operand.value] * count
