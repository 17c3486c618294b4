"""The program in a store: its text, and the files that it came from, for the locations in messages."""

from __future__ import annotations

import json
import re

from upshot.core.errors import ProgramError
from upshot.sql.either import parse_either
from upshot.syntax import print_program
from upshot.syntax.ast import Item, Program

LARGEST = 1 << 20
"""The most characters of files that are stored; beyond it messages name the stored program."""
_FILES = re.compile(r"\n// files: (\[.*\])\n\Z")


def stored_text(program: Program) -> str:
    """The text for a store. The files are in a comment, so that every reader of programs accepts it."""
    found = dict.fromkeys(item.span.source for item in program.items if item.span is not None)
    files = [(source.name, source.text) for source in found if not source.name.startswith("<")]
    text = print_program(program)
    if not files or sum(len(content) for _, content in files) > LARGEST:
        return text
    return f"{text}\n// files: {json.dumps(files)}\n"


def program_text(text: str) -> str:
    """The text without the files."""
    return _FILES.sub("", text)


def parse_stored(text: str, name: str) -> Program:
    """The stored program. Items of its files have their locations there, others in the stored text."""
    program, found = parse_either(program_text(text), name), _FILES.search(text)
    if found is None:
        return program
    places: dict[Item, Item] = {}
    for file, content in json.loads(found[1]):
        try:
            # A file may depend on definitions that are missing here: its items are located in the stored text.
            places |= {item: item for item in parse_either(content, file).items}
        except ProgramError:
            continue
    return Program(tuple(places.get(item, item) for item in program.items), span=program.span)
