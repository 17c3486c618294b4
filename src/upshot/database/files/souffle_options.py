"""The parameters of `.input`, `.output` and `.printsize`, under Soufflé's names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from upshot.core.diagnostic import Diagnostic, did_you_mean
from upshot.core.errors import ProgramError
from upshot.syntax.ast import Directive

KNOWN = ("IO", "filename", "delimiter", "headers", "compress", "rfc4180", "columns", "format", "dbname")
WITHOUT_EFFECT = ("name", "operation", "attributeNames", "params", "types", "intermediate", "fact-dir", "output-dir")
DEVICES = {
    "input": ("file", "stdin", "json", "sqlite"),
    "output": ("file", "stdout", "stdoutprintsize", "json", "sqlite"),
    "printsize": ("stdoutprintsize",),
}


@dataclass(frozen=True, slots=True)
class FileOptions:
    """The file of a relation's rows and its format. `quoted` means RFC 4180; `columns` has for each column of the
    relation the position of its field in a line; `objects` means rows of JSON as objects."""

    relation: str
    path: Path
    device: str = "file"
    delimiter: str = "\t"
    headers: bool = False
    compressed: bool = False
    quoted: bool = False
    columns: tuple[int, ...] | None = None
    objects: bool = False


def file_options(directive: Directive, folder: Path) -> FileOptions:
    """The options of one directive; all that is wrong with it in one `ProgramError`."""
    given = dict(directive.parameters)
    if given.get("IO") == "jsonfile":
        given["IO"] = "json"
    faults: list[Diagnostic] = []
    for name in given:
        if name not in KNOWN + WITHOUT_EFFECT:
            hint = did_you_mean(name, KNOWN) or f"known are {', '.join(f'`{known}`' for known in KNOWN)}"
            faults.append(_fault(directive, f"unknown parameter `{name}`", hint))
    quoted, headers, compressed = (_flag(directive, given, name, faults) for name in ("rfc4180", "headers", "compress"))
    options = FileOptions(
        directive.relation,
        folder
        / (given.get("filename") or given.get("dbname") or _default_name(directive, given, compressed=compressed)),
        _device(directive, given, faults),
        _delimiter(directive, given, quoted, faults),
        headers,
        compressed,
        quoted,
        _columns(directive, given, faults),
        given.get("format") == "object",
    )
    if given.get("format", "list") not in ("list", "object"):
        faults.append(_fault(directive, f"`format={given['format']}` is unknown", "use `list` or `object`"))
    if faults:
        raise ProgramError(faults)
    return options


def _default_name(directive: Directive, given: dict[str, str], *, compressed: bool) -> str:
    if given.get("IO") in ("json", "sqlite"):
        return f"{directive.relation}.{given['IO']}"
    return directive.relation + (".facts" if directive.kind == "input" else ".csv") + ".gz" * compressed


def _device(directive: Directive, given: dict[str, str], faults: list[Diagnostic]) -> str:
    devices = DEVICES[directive.kind]
    device = given.get("IO", devices[0])
    if device not in devices:
        hint = f"use {' or '.join(f'`IO={known}`' for known in devices)}"
        faults.append(_fault(directive, f"`IO={device}` is not available", hint))
    return device


def _delimiter(directive: Directive, given: dict[str, str], quoted: bool, faults: list[Diagnostic]) -> str:
    written = given.get("delimiter", "," if quoted else "\t")
    delimiter = {r"\t": "\t", r"\\": "\\"}.get(written, written)
    if not delimiter or "\n" in delimiter or "\r" in delimiter or (quoted and (len(delimiter) > 1 or delimiter == '"')):
        faults.append(_fault(directive, f"`{written}` cannot separate fields", "use one character such as `,`"))
    return delimiter


def _flag(directive: Directive, given: dict[str, str], name: str, faults: list[Diagnostic]) -> bool:
    value = given.get(name, "false")
    if value not in ("true", "false"):
        faults.append(_fault(directive, f"`{name}={value}` is neither true nor false", f"write `{name}=true`"))
    return value == "true"


def _columns(directive: Directive, given: dict[str, str], faults: list[Diagnostic]) -> tuple[int, ...] | None:
    if "columns" not in given:
        return None
    parts = given["columns"].split(":")
    if directive.kind != "input" or not all(part.isdecimal() for part in parts):
        hint = 'name positions in the input file, from 0: columns="0:2"'
        faults.append(_fault(directive, f"`columns={given['columns']}` is not a list of positions", hint))
        return None
    return tuple(int(part) for part in parts)


def _fault(directive: Directive, message: str, hint: str) -> Diagnostic:
    return Diagnostic("file-option", f"`.{directive.kind} {directive.relation}`: {message}", directive.span, help=hint)
