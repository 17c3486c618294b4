"""The commands, one module each or one for a few that share their work.

A terminal and arguments in; an exit code out, None for 0. To add one: a module here, and its arguments in `cli/app.py`.
"""
