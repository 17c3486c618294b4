"""The command line: arguments in; output and an exit code out.

Read `app` (all commands), `options` (their arguments, one declaration each), `commands` (one module per command),
`session` (a database made from files), `engines` (the engine of a command). `input` reads change files and requests,
`output` prints, `repl` is the interactive session, `demo` the demonstrations.
"""

from upshot.cli.app import main

__all__ = ["main"]
