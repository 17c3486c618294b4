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
    """The file of a relation's rows and its format. `quoted`: RFC 4180; `columns`: for each column of the relation the
    position of its field in a line; `objects`: rows of JSON as objects."""

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
    """The options of one directive; all its errors in one `ProgramError`."""
    parameters = dict(directive.parameters)
    if parameters.get("IO") == "jsonfile":
        parameters["IO"] = "json"
    faults: list[Diagnostic] = []
    for name in parameters:
        if name not in KNOWN + WITHOUT_EFFECT:
            hint = did_you_mean(name, KNOWN) or f"known are {', '.join(f'`{known}`' for known in KNOWN)}"
            faults.append(_fault(directive, f"unknown parameter `{name}`", hint))
    quoted, headers, compressed = (
        _flag(directive, parameters, name, faults) for name in ("rfc4180", "headers", "compress")
    )
    options = FileOptions(
        directive.relation,
        folder
        / (
            parameters.get("filename")
            or parameters.get("dbname")
            or _default_name(directive, parameters, compressed=compressed)
        ),
        _device(directive, parameters, faults),
        _delimiter(directive, parameters, quoted, faults),
        headers,
        compressed,
        quoted,
        _columns(directive, parameters, faults),
        parameters.get("format") == "object",
    )
    if parameters.get("format", "list") not in ("list", "object"):
        faults.append(_fault(directive, f"`format={parameters['format']}` is unknown", "use `list` or `object`"))
    if faults:
        raise ProgramError(faults)
    return options


def _default_name(directive: Directive, parameters: dict[str, str], *, compressed: bool) -> str:
    if parameters.get("IO") in ("json", "sqlite"):
        return f"{directive.relation}.{parameters['IO']}"
    return directive.relation + (".facts" if directive.kind == "input" else ".csv") + ".gz" * compressed


def _device(directive: Directive, parameters: dict[str, str], faults: list[Diagnostic]) -> str:
    devices = DEVICES[directive.kind]
    device = parameters.get("IO", devices[0])
    if device not in devices:
        hint = f"use {' or '.join(f'`IO={known}`' for known in devices)}"
        faults.append(_fault(directive, f"`IO={device}` is not available", hint))
    return device


def _delimiter(directive: Directive, parameters: dict[str, str], quoted: bool, faults: list[Diagnostic]) -> str:
    written = parameters.get("delimiter", "," if quoted else "\t")
    delimiter = {r"\t": "\t", r"\\": "\\"}.get(written, written)
    if not delimiter or "\n" in delimiter or "\r" in delimiter or (quoted and (len(delimiter) > 1 or delimiter == '"')):
        faults.append(_fault(directive, f"`{written}` cannot separate fields", "use one character such as `,`"))
    return delimiter


def _flag(directive: Directive, parameters: dict[str, str], name: str, faults: list[Diagnostic]) -> bool:
    value = parameters.get(name, "false")
    if value not in ("true", "false"):
        faults.append(_fault(directive, f"`{name}={value}` is neither true nor false", f"write `{name}=true`"))
    return value == "true"


def _columns(directive: Directive, parameters: dict[str, str], faults: list[Diagnostic]) -> tuple[int, ...] | None:
    if "columns" not in parameters:
        return None
    parts = parameters["columns"].split(":")
    if directive.kind != "input" or not all(part.isdecimal() for part in parts):
        hint = 'name positions in the input file, from 0: columns="0:2"'
        faults.append(_fault(directive, f"`columns={parameters['columns']}` is not a list of positions", hint))
        return None
    return tuple(int(part) for part in parts)


def _fault(directive: Directive, message: str, hint: str) -> Diagnostic:
    return Diagnostic("file-option", f"`.{directive.kind} {directive.relation}`: {message}", directive.span, help=hint)
