"""The kernel as machine code, compiled once with explicit signatures and cached on disk.

Imported only when there is enough work to justify loading Numba (see `machine.py`).
"""

# mypy: ignore-errors
from __future__ import annotations

from inspect import isfunction

import numba
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload, register_jitable

from upshot.engine.local.kernel import (
    arithmetic,
    best_rows,
    cells,
    changes,
    heads,
    instructions,
    kernel,
    memory,
    sets,
    sharing,
    walks,
)
from upshot.engine.local.kernel.code_cache import cache_folder, mark_complete


def _pointer(builder, address, index, bits):
    kind = ir.IntType(bits)
    base = builder.inttoptr(address, kind.as_pointer())
    return builder.gep(base, [index])


def _loader(bits, signed):
    @intrinsic
    def load(typing_context, address, index):
        def generate(context, builder, signature, args):
            value = builder.load(_pointer(builder, args[0], args[1], bits))
            if bits == 64:
                return value
            widen = builder.sext if signed else builder.zext
            return widen(value, ir.IntType(64))

        return types.int64(types.int64, types.int64), generate

    return load


def _storer(bits):
    @intrinsic
    def store(typing_context, address, index, value):
        def generate(context, builder, signature, args):
            narrow = args[2] if bits == 64 else builder.trunc(args[2], ir.IntType(bits))
            builder.store(narrow, _pointer(builder, args[0], args[1], bits))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), generate

    return store


@intrinsic
def _prefetch(typing_context, address, index):
    def generate(context, builder, signature, args):
        pointer = _pointer(builder, args[0], args[1], 64)
        byte = builder.bitcast(pointer, cgutils.voidptr_t)
        i32 = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, i32, i32, i32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(function, [byte, i32(0), i32(3), i32(1)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def _quotient(typing_context, one, other):
    def generate(context, builder, signature, args):
        half = ir.IntType(32)  # a division of halves takes a fraction of the time
        return builder.zext(builder.udiv(*(builder.trunc(arg, half) for arg in args)), ir.IntType(64))

    return types.int64(types.int64, types.int64), generate


@intrinsic
def _compare_swap(typing_context, address, index, expected, value):
    def generate(context, builder, signature, args):
        pointer = _pointer(builder, args[0], args[1], 64)
        answer = builder.cmpxchg(pointer, args[2], args[3], "seq_cst", "seq_cst")
        return builder.extract_value(answer, 0)

    return types.int64(types.int64, types.int64, types.int64, types.int64), generate


@intrinsic
def _fetch_add(typing_context, address, index, value):
    def generate(context, builder, signature, args):
        return builder.atomic_rmw("add", _pointer(builder, args[0], args[1], 64), args[2], "seq_cst")

    return types.int64(types.int64, types.int64, types.int64), generate


def _bind(function, load_or_store, arity):
    if arity == 2:
        overload(function, inline="never")(lambda address, i: lambda address, i: load_or_store(address, i))
    else:
        overload(function, inline="never")(
            lambda address, i, value: lambda address, i, value: load_or_store(address, i, value)
        )


_bind(memory.load8, _loader(64, True), 2)
_bind(memory.load4, _loader(32, True), 2)
_bind(memory.load1, _loader(8, False), 2)
_bind(memory.store8, _storer(64), 3)
_bind(memory.store4, _storer(32), 3)
_bind(memory.store1, _storer(8), 3)
_bind(memory.prefetch, _prefetch, 2)
_bind(memory.quotient, _quotient, 2)
_bind(memory.fetch_add, _fetch_add, 3)
overload(memory.compare_swap)(
    lambda address, i, expected, value: lambda address, i, expected, value: _compare_swap(address, i, expected, value)
)


@intrinsic
def _mix(typing_context, state, value):
    def generate(context, builder, signature, args):
        word = builder.mul(builder.xor(args[0], args[1]), ir.IntType(64)(memory._GOLDEN))
        return builder.xor(word, builder.lshr(word, ir.IntType(64)(29)))

    return types.int64(types.int64, types.int64), generate


@intrinsic
def _finish(typing_context, state):
    def generate(context, builder, signature, args):
        word = builder.mul(args[0], ir.IntType(64)(memory._FINAL))
        return builder.lshr(word, ir.IntType(64)(33))

    return types.int64(types.int64), generate


overload(memory.mix)(lambda state, value: lambda state, value: _mix(state, value))
overload(memory.finish)(lambda state: lambda state: _finish(state))

_HOT = {
    "add_row", "append", "bounds_of", "call_rows", "cell_of", "chain_start", "claim", "code_in", "equal_words",
    "find_tagged", "insert_all", "line_at", "next_row", "place_at", "place_in", "push", "start_probe", "tag_of",
    "take_row", "take_stored",
}  # fmt: skip
"""Functions that are called for every candidate row: a call would cost as much as the work."""

_SOURCES = (arithmetic, cells, sets, best_rows, changes, sharing, walks, heads, instructions, kernel)

for _module in _SOURCES:
    for _function in vars(_module).values():
        if isfunction(_function) and _function.__module__ == _module.__name__:
            register_jitable(forceinline=_function.__name__ in _HOT)(_function)


def _compile(function, *, cached):
    """Machine code for a function of 64-bit integers; the explicit signature allows caching on disk."""
    arity = function.__code__.co_argcount
    answer = types.void if function.__annotations__["return"] == "None" else types.int64
    return njit(answer(*[types.int64] * arity), cache=cached, nogil=True)(function)


def _compile_all():
    """All entry points by name; Numba's cache folder is replaced meanwhile."""
    folder, before = cache_folder(), numba.config.CACHE_DIR
    try:
        numba.config.CACHE_DIR = str(folder or "")
        functions = [function for module in _SOURCES for function in getattr(module, "ENTRIES", ())]
        entries = {function.__name__: _compile(function, cached=folder is not None) for function in functions}
        mark_complete(folder)
        return entries
    finally:
        numba.config.CACHE_DIR = before


ENTRIES = _compile_all()
"""The functions Python calls, by name."""
