"""The `.input`, `.output` and `.printsize` of a program, carried out on a database."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from upshot import Database, Transaction
from upshot.database.files.souffle_options import file_options
from upshot.database.files.souffle_reader import read_facts
from upshot.database.files.souffle_writer import block, refuse_unwritable, size_line, write_rows


def load_inputs(database: Database, folder: Path) -> Transaction:
    """Inserts the rows of every `.input` file under `folder`, as one transaction."""
    wanted = [(d.relation, file_options(d, folder)) for d in database.directives if d.kind == "input"]
    with database.transaction() as transaction:
        for relation, options in wanted:
            transaction.insert(relation, read_facts(database.schemas[relation], options))
    return transaction


def write_outputs(database: Database, folder: Path | None, stream: TextIO) -> list[Path]:
    """The files written for `.output` and `.printsize`, in program order. Without a folder all goes to `stream`.
    A text that could not be read back is refused before the first file is written."""
    wanted = [file_options(d, folder or Path()) for d in database.directives if d.kind != "input"]
    for options in wanted:
        if options.device == "file" and folder is not None:
            refuse_unwritable(database.rows(options.relation), options)
    written = []
    for options in wanted:
        rows = database.rows(options.relation)
        if options.device == "stdoutprintsize":
            stream.write(size_line(options.relation, len(rows)) + "\n")
        elif options.device == "stdout" or folder is None:
            stream.writelines(line + "\n" for line in block(rows, options))
        else:
            write_rows(rows, options)
            written.append(options.path)
    return written
