"""`upshot` on the command line: arguments in, exit code out."""

from upshot.cli.app import main

__all__ = ["main"]
