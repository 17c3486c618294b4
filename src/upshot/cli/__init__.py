"""The command line: arguments in; output and an exit code out.

Read `app` (the table of commands), `commands` (their arguments and bodies), `options` (shared arguments), `session` (a
database made from files), `engines` (the engine of a command). `input` reads programs, change files and rows, `output`
prints, `repl` is the interactive session, `demo` has the demonstrations.
"""

from upshot.cli.app import main

__all__ = ["main"]
