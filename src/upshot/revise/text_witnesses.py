"""Texts for which a test of a rule holds, to stand for new values that are to pass it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, islice, product

from upshot.values.patterns import pattern as compiled

LONGEST, SHORT, MOST = 12, 3, 4000
"""Lengths of texts of one letter, and of any letters; texts that are tried."""


def containing(needle: str, number: int) -> Iterator[str]:
    """A text with another in it."""
    yield f"{needle} {number}"


def matching(pattern: str, number: int) -> Iterator[str]:
    """Texts that match a pattern, as far as short ones made of its own letters do; for each number another comes
    first."""
    letters = dict.fromkeys(each for each in f"{pattern}aA0 " if each.isalnum() or each in " -_.@/:")
    alike = (letter * length for length in range(1, LONGEST) for letter in letters)
    mixed = ("".join(each) for length in range(2, SHORT + 1) for each in product(letters, repeat=length))
    # A pattern that repeats may take long to refuse a long text.
    plain = () if re.search(r"[*+{]", pattern) else (re.sub(r"[\\^$()?]", "", pattern),)
    found = (text for text in islice(chain(plain, alike, mixed), MOST) if compiled(pattern).matches(text))
    yield from islice(dict.fromkeys(found), number - 1, number + LONGEST)


def just_below(text: str, number: int) -> Iterator[str]:
    """A text that comes before another, beginning as it does where that is possible."""
    if not text:
        return
    start, last = text[:-1], ord(text[-1])
    if last > ord("!"):
        yield f"{start}{chr(last - 1)} {number}"
    elif start:
        yield start


def between(low: str | None, high: str | None) -> Iterator[str]:
    """Texts after one and before another, if there are any that are easy to find."""
    start = low or ""
    longer = chain((f"{start} {number}" for number in range(1, 9)), (f"{start}!", f"{start}\0", f"{start}\0\0"))
    shorter = chain.from_iterable(just_below(high, number) for number in range(1, 9)) if high else ()
    named = (f"{start}new value {number}" for number in range(1, 9))
    prefixes = (high[:size] for size in range(len(high))) if high else ()
    for text in dict.fromkeys(chain(named, longer, shorter, prefixes)):
        if (low is None or text > low) and (high is None or text < high):
            yield text
