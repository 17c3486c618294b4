"""The parameters of `.input` and `.output`, in Soufflé's names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from upshot.core.diagnostic import Diagnostic, Severity, did_you_mean
from upshot.core.errors import ProgramError
from upshot.syntax.ast import Directive

_KNOWN = ("IO", "filename", "delimiter", "headers", "compress", "rfc4180", "columns")
_WITHOUT_EFFECT = ("name", "operation", "attributeNames", "intermediate", "params", "types", "output-dir", "fact-dir")
_ESCAPES = {r"\t": "\t", r"\n": "\n", r"\\": "\\"}


@dataclass(frozen=True, slots=True)
class FileOptions:
    """Where the rows of a relation are and how they are written there."""

    path: Path
    standard: bool = False
    """Standard input or output instead of the file."""
    delimiter: str = "\t"
    headers: bool = False
    compressed: bool = False
    quoted: bool = False
    """Fields as RFC 4180 has them: `"` around fields with delimiters, line ends or quotes."""
    columns: tuple[int, ...] | None = None
    """For each column of the relation the position of its field in a line."""


def file_options(directive: Directive, folder: Path) -> tuple[FileOptions, tuple[Diagnostic, ...]]:
    """The options of one directive with its warnings; a `ProgramError` for what is not supported."""
    given = dict(directive.parameters)
    warnings = tuple(_unknown(directive, name) for name in given if name not in _KNOWN + _WITHOUT_EFFECT)
    quoted = _flag(directive, given, "rfc4180")
    compressed = _flag(directive, given, "compress")
    default = f"{directive.relation}.facts" if directive.kind == "input" else f"{directive.relation}.csv"
    return (
        FileOptions(
            path=folder / given.get("filename", default + ".gz" * compressed),
            standard=_standard(directive, given.get("IO", "file")),
            delimiter=_delimiter(directive, given.get("delimiter"), quoted),
            headers=_flag(directive, given, "headers"),
            compressed=compressed,
            quoted=quoted,
            columns=_columns(directive, given.get("columns")),
        ),
        warnings,
    )


def _standard(directive: Directive, device: str) -> bool:
    if device == "file":
        return False
    if device == ("stdin" if directive.kind == "input" else "stdout"):
        return True
    raise _refused(directive, f"`IO={device}` is not supported", "use `IO=file`, the default")


def _delimiter(directive: Directive, given: str | None, quoted: bool) -> str:
    if given is None:
        return "," if quoted else "\t"
    delimiter = _ESCAPES.get(given, given)
    if not delimiter or "\n" in delimiter or (quoted and (len(delimiter) != 1 or delimiter == '"')):
        raise _refused(directive, f"`delimiter={given}` cannot separate fields", "use one character such as `,`")
    return delimiter


def _flag(directive: Directive, given: dict[str, str], name: str) -> bool:
    value = given.get(name, "false")
    if value not in ("true", "false"):
        raise _refused(directive, f"`{name}={value}` is neither true nor false", "")
    return value == "true"


def _columns(directive: Directive, given: str | None) -> tuple[int, ...] | None:
    if given is None:
        return None
    parts = given.split(":")
    if directive.kind != "input" or not all(part.isdecimal() for part in parts):
        raise _refused(directive, f"`columns={given}` is not a list of positions", "as in `columns=0:2:1`")
    return tuple(map(int, parts))


def _refused(directive: Directive, message: str, help: str) -> ProgramError:
    where = f".{directive.kind} {directive.relation}"
    return ProgramError([Diagnostic("file-option", f"`{where}`: {message}", directive.span, help=help)])


def _unknown(directive: Directive, name: str) -> Diagnostic:
    where = f".{directive.kind} {directive.relation}"
    return Diagnostic(
        "file-option",
        f"`{where}`: the parameter `{name}` has no effect",
        directive.span,
        help=did_you_mean(name, _KNOWN),
        severity=Severity.WARNING,
    )
