"""64-bit integer arithmetic that reports overflow instead of wrapping, for the kernel (compiled or not)."""

from __future__ import annotations

from upshot.engine.local.kernel.layout import DONE, NEGATIVE_EXPONENT, OVERFLOW, ZERO_DIVISION
from upshot.engine.local.kernel.memory import store8

_MAX = 2**63 - 1
_MIN = -(2**63)


def compare(op: int, a: int, b: int) -> int:
    if op == 0:
        return 1 if a == b else 0
    if op == 1:
        return 1 if a != b else 0
    if op == 2:
        return 1 if a < b else 0
    if op == 3:
        return 1 if a <= b else 0
    if op == 4:
        return 1 if a > b else 0
    return 1 if a >= b else 0


def product_overflows(a: int, b: int) -> int:
    """Test by division, since the product itself may overflow."""
    if a == 0 or b == 0:
        return 0
    if a > 0:
        if b > 0:
            return 1 if a > _MAX // b else 0
        return 1 if b < -(_MAX // a) - (1 if _MAX % a == a - 1 else 0) else 0
    if b > 0:
        return 1 if a < -(_MAX // b) - (1 if _MAX % b == b - 1 else 0) else 0
    if a == _MIN or b == _MIN:
        return 1
    return 1 if -a > _MAX // -b else 0


def quotient(a: int, b: int) -> int:
    """Truncated toward zero."""
    q = a // b
    return q + 1 if q < 0 and q * b != a else q


def power(base: int, exponent: int, target: int) -> int:
    if exponent < 0:
        return NEGATIVE_EXPONENT
    result = 1
    while exponent > 0:
        if exponent & 1:
            if product_overflows(result, base) == 1:
                return OVERFLOW
            result *= base
        exponent >>= 1
        if exponent > 0:
            if product_overflows(base, base) == 1:
                return OVERFLOW
            base *= base
    store8(target, 0, result)
    return DONE


def divide(op: int, a: int, b: int, target: int) -> int:
    if b == 0:
        return ZERO_DIVISION
    if b == -1:
        if op == 4:
            store8(target, 0, 0)
            return DONE
        if a == _MIN:
            return OVERFLOW
        store8(target, 0, -a)
        return DONE
    q = quotient(a, b)
    store8(target, 0, q if op == 3 else a - q * b)
    return DONE


def shift(op: int, a: int, b: int, target: int) -> int:
    """Soufflé's shifts: the distance is taken modulo 64; a left shift that loses bits is an overflow."""
    distance = b & 63
    if op == 12:
        store8(target, 0, a >> distance)
        return DONE
    if distance == 63 and a != 0:
        if a == -1:
            store8(target, 0, _MIN)
            return DONE
        return OVERFLOW
    if distance < 63 and product_overflows(a, 1 << distance) == 1:
        return OVERFLOW
    store8(target, 0, a << distance)
    return DONE


def bitwise(op: int, a: int, b: int) -> int:
    if op == 7:
        return a & b
    if op == 8:
        return a | b
    if op == 9:
        return a ^ b
    if op == 10:
        return ~a
    if op == 13:
        return a if a > b else b
    return a if a < b else b


def arithmetic(op: int, a: int, b: int, target: int) -> int:
    """Store `a op b` at the target; DONE, or why there is no result. Operations are numbered as in
    `layout.ARITHMETIC`."""
    if op == 0:
        if (b > 0 and a > _MAX - b) or (b < 0 and a < _MIN - b):
            return OVERFLOW
        store8(target, 0, a + b)
    elif op == 1:
        if (b < 0 and a > _MAX + b) or (b > 0 and a < _MIN + b):
            return OVERFLOW
        store8(target, 0, a - b)
    elif op == 2:
        if product_overflows(a, b) == 1:
            return OVERFLOW
        store8(target, 0, a * b)
    elif op == 3 or op == 4:
        return divide(op, a, b, target)
    elif op == 5:
        return power(a, b, target)
    elif op == 6:
        if a == _MIN:
            return OVERFLOW
        store8(target, 0, -a)
    elif op == 11 or op == 12:
        return shift(op, a, b, target)
    else:
        store8(target, 0, bitwise(op, a, b))
    return DONE
