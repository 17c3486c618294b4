"""The commands, one module each, or one for several that share their work.

A command is a function: terminal and arguments in, exit code out. The annotations of its parameters declare the
arguments of the command line. To add one: a function here, and its line in `cli/app.py`.
"""
