"""Functions of the user: their signatures, and the records made from these.

The checker replaces `@f` by the signature `@f(number,symbol):number`, so that a clause has all properties of the
function other than its code, which each database registers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, NoReturn

from upshot.core.errors import DataError
from upshot.core.types import Kind, Type
from upshot.values.records import BuiltinAggregate, BuiltinFunction, FunctionMeaning, RunningState
from upshot.values.signatures import fixed, only

MARK = "@"


def signed_name(
    name: str, arguments: Sequence[Kind], result: Kind, revision: int = 0, *, stateful: bool = False, fold: bool = False
) -> str:
    """The signature of a function: its name, its types, and how often it was refreshed or replaced.

    >>> signed_name("f", [Kind.NUMBER, Kind.SYMBOL], Kind.NUMBER)
    '@f(number,symbol):number'
    >>> signed_name("f", [Kind.NUMBER], Kind.NUMBER, 3, stateful=True)
    '@f(number):number!3'
    >>> signed_name("f", [Kind.NUMBER], Kind.NUMBER, 3)
    '@f(number):number~3'
    >>> signed_name("f", [Kind.NUMBER], Kind.NUMBER, fold=True)
    '@f(number):number+0'
    """
    state = f"+{revision}" if fold else f"!{revision}" if stateful else f"~{revision}" if revision else ""
    return f"{MARK}{name}({','.join(kind.value for kind in arguments)}):{result.value}{state}"


def is_stateful(signed: str) -> bool:
    return "!" in signed


def is_fold(signed: str) -> bool:
    return "+" in signed


def bare_name(signed: str) -> str:
    """The name of a function or aggregate without the types.

    >>> bare_name("@f(number,symbol):number"), bare_name("sum")
    ('f', 'sum')
    """
    return signed[len(MARK) :].partition("(")[0] if is_functor(signed) else signed


def is_functor(name: str) -> bool:
    return name.startswith(MARK)


def signature_of(signed: str) -> tuple[tuple[Type, ...], Type]:
    """The types of the arguments and of the result."""
    inside, _, result = re.split("[!~+]", signed)[0].partition("(")[2].partition("):")
    return tuple(Type(Kind(each)) for each in inside.split(",")), Type(Kind(result))


@cache
def functor_record(signed: str) -> BuiltinFunction:
    """The record of a function of the user. The database has the code; the record is never called."""
    arguments, result = signature_of(signed)

    def unknown(*args: Any) -> NoReturn:
        raise missing(bare_name(signed))

    meaning = FunctionMeaning(unknown, fails=True)
    return BuiltinFunction(
        signed,
        fixed(only(result.kind), *(only(each.kind) for each in arguments)),
        dict.fromkeys(Kind, meaning),
        f"@{bare_name(signed)}(…)",
        "a function of your own",
    )


@cache
def fold_record(signed: str) -> BuiltinAggregate:
    """The record of a fold of the user. The database has the code."""
    (argument,), result = signature_of(signed)

    def unknown(values: Sequence[Any], type: Type) -> NoReturn:
        raise missing(bare_name(signed))

    name = bare_name(signed)
    signature = fixed(only(result.kind), only(argument.kind))
    return BuiltinAggregate(
        signed, signature, unknown, RunningState.GROUP, f"@{name} a : {{ … }}", "a fold of your own"
    )


def missing(name: str) -> DataError:
    """The error of a call of a function that is not registered."""
    return DataError(
        f"function `{name}` is not registered",
        code="function-missing",
        help=f'register it: `db.function("{name}", …)`, or `connect(path, functions={{"{name}": …}})` on opening '
        "a database; for a command, name its file with `--functions`",
    )
