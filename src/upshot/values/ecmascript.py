"""Translate the regular expressions of Soufflé, which are ECMAScript's as in C++, with POSIX classes in brackets.

`translated` returns the same expression for Python's `re`. The languages differ: in `re`, `[[:digit:]]` is a set with
`[` and `:`, `a++` is possessive, `.` matches `\\r`, and `$` matches before a final newline. Characters are code points;
`\\d`, `\\w`, `\\s`, `\\b` and the classes are those of ASCII, as in Soufflé. Patterns that the standard or libstdc++
rejects are rejected, and also those on which the two differ. [ISO C++ 28.6.12, ECMA-262 15.10]
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

Ranges = tuple[tuple[int, int], ...]
"""Code points, from and to."""

_LAST = 0x10FFFF


class BadPattern(Exception):
    """A text is not a pattern: the reason, and the position of the wrong character."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(f"{reason}, at character {position + 1}")


@lru_cache(maxsize=256)
def translated(pattern: str) -> str:
    r"""The pattern for `re`, to be compiled with `re.ASCII` and matched against whole texts.

    >>> translated("[[:digit:]]+.")
    '[0-9]+[^\\n\\r]'
    """
    reader = _PatternReader(pattern)
    found = reader.disjunction()
    if reader.next:
        raise BadPattern("`)` without `(`" if reader.next == ")" else "nothing to repeat", reader.place)
    return found


def _ranges(letters: Iterable[str]) -> Ranges:
    return tuple((ord(each), ord(each)) for each in letters)


_ASCII = "".join(map(chr, range(128)))
_PRINTABLE = _ASCII[0x20:0x7F]
_CLASSES: dict[str, str] = {
    "alnum": string.ascii_letters + string.digits,
    "alpha": string.ascii_letters,
    "blank": " \t",
    "cntrl": _ASCII[:0x20] + "\x7f",
    "digit": string.digits,
    "graph": _PRINTABLE[1:],
    "lower": string.ascii_lowercase,
    "print": _PRINTABLE,
    "punct": string.punctuation,
    "space": string.whitespace,
    "upper": string.ascii_uppercase,
    "xdigit": string.hexdigits,
    "d": string.digits,
    "s": string.whitespace,
    "w": string.ascii_letters + string.digits + "_",
}
_NAMES = (
    "NUL SOH STX ETX EOT ENQ ACK alert backspace tab newline vertical-tab form-feed carriage-return SO SI DLE DC1 DC2 "
    "DC3 DC4 NAK SYN ETB CAN EM SUB ESC IS4 IS3 IS2 IS1 space exclamation-mark quotation-mark number-sign dollar-sign "
    "percent-sign ampersand apostrophe left-parenthesis right-parenthesis asterisk plus-sign comma hyphen period slash "
    "zero one two three four five six seven eight nine colon semicolon less-than-sign equals-sign greater-than-sign "
    f"question-mark commercial-at {' '.join(string.ascii_uppercase)} left-square-bracket backslash "
    f"right-square-bracket circumflex underscore grave-accent {' '.join(string.ascii_lowercase)} left-curly-bracket "
    "vertical-line right-curly-bracket tilde DEL"
).split()
_COLLATING = {name: chr(code) for code, name in enumerate(_NAMES)}
"""The POSIX names of characters, as in `[[.hyphen.]]`."""
_CONTROLS = {"0": "\0", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def _rendered(ranges: Ranges, *, negated: bool = False) -> str:
    """A set of characters in the syntax of `re`; an empty set is the complement of all characters."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    if not merged:
        merged, negated = [(0, _LAST)], not negated
    items = "".join(_code(low) if low == high else f"{_code(low)}-{_code(high)}" for low, high in merged)
    return f"[{'^' * negated}{items}]"


def _code(code: int) -> str:
    if code < 128:
        letter = chr(code)
        named = next((name for name, each in _CONTROLS.items() if each == letter and name != "0"), None)
        return letter if letter.isalnum() else f"\\{named}" if named else f"\\x{code:02x}"
    return chr(code) if chr(code).isprintable() else f"\\U{code:08x}"


def _complement(letters: str) -> Ranges:
    found, start = [], 0
    for code in sorted({ord(each) for each in letters}):
        found += [(start, code - 1)] if start < code else []
        start = code + 1
    return (*found, (start, _LAST))


@dataclass(slots=True)
class _Bracket:
    """The parsed part of `[…]`: the character `last` may begin a range; `after_class` if a class precedes."""

    ranges: list[tuple[int, int]] = field(default_factory=list)
    last: str = ""
    after_class: bool = False

    def add(self, letter: str) -> None:
        self.flush()
        self.last, self.after_class = letter, False

    def add_class(self, ranges: Ranges) -> None:
        self.flush()
        self.ranges += ranges
        self.after_class = True

    def flush(self) -> None:
        self.ranges += _ranges(self.last)
        self.last = ""


class _PatternReader:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self.place = 0
        self._groups = 0
        self._open: list[int] = []

    @property
    def next(self) -> str:
        """The next character; empty at the end."""
        return self._pattern[self.place : self.place + 1]

    def _take(self) -> str:
        letter = self.next
        self.place += 1
        return letter

    def _skip(self, expected: str) -> bool:
        if not self._pattern.startswith(expected, self.place):
            return False
        self.place += len(expected)
        return True

    def _fail(self, reason: str, back: int = 0) -> BadPattern:
        return BadPattern(reason, max(self.place - back, 0))

    def disjunction(self) -> str:
        found = [self._alternative()]
        while self._skip("|"):
            found.append(self._alternative())
        return "|".join(found)

    def _alternative(self) -> str:
        found = []
        while (term := self._assertion()) or (term := self._atom()):
            found.append(term)
        return "".join(found)

    def _assertion(self) -> str:
        """A term that tests a position; it cannot be repeated."""
        for spelling, meaning in (("^", r"\A"), ("$", r"\Z"), (r"\b", r"\b"), (r"\B", r"(?:\B|\A\Z)")):
            # In Python before 3.14 `\B` does not match an empty text.
            if self._skip(spelling):
                return meaning
        for opening in ("(?=", "(?!"):
            if self._skip(opening):
                return f"{opening}{self._group()})"
        return ""

    def _group(self) -> str:
        opened = self.place
        found = self.disjunction()
        if not self._skip(")"):
            raise BadPattern(
                "nothing to repeat" if self.next else "`(` without `)`", self.place if self.next else opened - 1
            )
        return found

    def _atom(self) -> str:
        """A term that can be repeated, with its quantifiers."""
        letter = self.next
        if not letter or letter in "|)*+?{":
            return ""
        if letter == "(":
            found = self._parenthesis()
        elif letter == "[":
            self.place += 1
            found = self._bracket()
        elif letter == ".":
            self.place += 1
            found = r"[^\n\r]"
        elif letter == "\\":
            found = self._escape_outside()
        else:
            found = re.escape(self._take())
        return self._repeated(found)

    def _parenthesis(self) -> str:
        if self._skip("(?:"):
            return f"(?:{self._group()})"
        if self._skip("(?"):
            raise self._fail(f"`(?{self.next}` is not a group: use `(?:`, `(?=` or `(?!`", 2)
        self.place += 1
        self._groups += 1
        self._open.append(self._groups)
        found = self._group()
        self._open.pop()
        return f"({found})"

    def _repeated(self, atom: str) -> str:
        first = True
        while quantifier := self._quantifier():
            lazy = "?" if self._skip("?") else ""
            atom = f"{atom if first else f'(?:{atom})'}{quantifier}{lazy}"
            first = False
        return atom

    def _quantifier(self) -> str:
        if self.next and self.next in "*+?":
            return self._take()
        if not self._skip("{"):
            return ""
        found = re.compile(r"([0-9]+)(,?)([0-9]*)\}").match(self._pattern, self.place)
        if found is None or (found[3] and not found[2]):
            raise self._fail("`{` begins a repetition `{2}`, `{2,}` or `{2,3}`; the character is written `\\{`", 1)
        if found[3] and int(found[3]) < int(found[1]):
            raise self._fail(f"`{{{found[0]}` repeats at least more often than at most", 1)
        self.place = found.end()
        return f"{{{found[0]}"

    def _escape_outside(self) -> str:
        letter, begin = self._pattern[self.place + 1 : self.place + 2], self.place
        if letter.lower() in _CLASSES and letter:
            self.place += 2
            return _rendered(_ranges(_CLASSES[letter.lower()]), negated=letter.isupper())
        if letter in "123456789" and letter:
            number = re.compile(r"\d+", re.ASCII).match(self._pattern, self.place + 1)
            assert number is not None
            self.place = number.end()
            if int(number[0]) > self._groups or int(number[0]) in self._open:
                raise BadPattern(f"`\\{number[0]}` refers to an unknown group", begin)
            return f"(?:\\{number[0]})"
        return re.escape(self._escaped())

    def _escaped(self) -> str:
        """The character of an escape sequence."""
        self.place += 1
        letter = self._take()
        if letter in _CONTROLS and letter:
            return _CONTROLS[letter]
        if letter in ("x", "u"):
            size = 2 if letter == "x" else 4
            digits = self._pattern[self.place : self.place + size]
            if len(digits) < size or not set(digits) <= set(string.hexdigits):
                raise self._fail(f"`\\{letter}` needs {size} hexadecimal digits", 2)
            self.place += size
            return chr(int(digits, 16))
        if not letter:
            raise self._fail("a `\\` at the end", 2)
        if letter.isascii() and letter.isalnum():
            raise self._fail(f"unknown escape `\\{letter}`", 2)
        return letter

    # ---- brackets -------------------------------------------------------------------------------------------

    def _bracket(self) -> str:
        opened, negated, found = self.place - 1, self._skip("^"), _Bracket()
        while not self._skip("]"):
            if not self.next:
                raise BadPattern("`[` without `]`", opened)
            if self.next == "-":
                self._dash(found)
            elif named := self._named():
                kind, name = named
                self._add_named(found, kind, name)
            elif (letter := self._class_letter()) is not None:
                letters = _CLASSES[letter.lower()]
                found.add_class(_complement(letters) if letter.isupper() else _ranges(letters))
            else:
                found.add(self._character())
        found.flush()
        return _rendered(tuple(found.ranges), negated=negated)

    def _dash(self, found: _Bracket) -> None:
        """A range between two characters; `-` itself at the start, at the end, and after a range."""
        self.place += 1
        if self.next == "]" or not (found.last or found.after_class):
            found.add("-")
            return
        if found.after_class:
            raise self._fail("a range cannot begin with a class", 1)
        if self._pattern.startswith(("[.", "[:", "[="), self.place) or self._is_class_letter():
            raise self._fail("a range cannot end with a class")
        low, high = found.last, self._character() if self.next else ""
        if high and high < low:
            raise self._fail(f"the range `{low}-{high}` is empty", 1)
        found.last = ""
        found.ranges += [(ord(low), ord(high))] if high else []

    def _character(self) -> str:
        if self.next != "\\":
            return self._take()
        if self._skip(r"\b"):
            return "\b"
        return self._escaped()

    def _is_class_letter(self) -> bool:
        letter = self._pattern[self.place + 1 : self.place + 2]
        return self.next == "\\" and bool(letter) and letter in "dDsSwW"

    def _class_letter(self) -> str | None:
        if not self._is_class_letter():
            return None
        self.place += 2
        return self._pattern[self.place - 1]

    def _named(self) -> tuple[str, str] | None:
        """The kind and the name of `[:alpha:]`, `[.hyphen.]` or `[=a=]`."""
        kind = self._pattern[self.place + 1 : self.place + 2]
        if self.next != "[" or kind not in (".", ":", "="):
            return None
        end = self._pattern.find(kind, self.place + 2)
        if end < 0 or self._pattern[end + 1 : end + 2] != "]":
            raise self._fail(f"`[{kind}` without `{kind}]`")
        name, self.place = self._pattern[self.place + 2 : end], end + 2
        return kind, name

    def _add_named(self, found: _Bracket, kind: str, name: str) -> None:
        if kind == ":":
            if name.lower() not in _CLASSES:
                raise self._fail(f"unknown class `[:{name}:]`", len(name) + 4)
            found.add_class(_ranges(_CLASSES[name.lower()]))
            return
        letter = _COLLATING.get(name)
        if letter is None:
            raise self._fail(f"unknown character name `{name}`", len(name) + 4)
        if kind == ".":
            found.add(letter)
        else:
            # Letters that differ only in case are equivalent.
            found.add_class(_ranges({letter.lower(), letter.upper()}))
