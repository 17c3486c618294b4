"""One file per command; each takes a terminal and its arguments and returns an exit code, None for 0.

To add one: a module here, and its arguments in `cli/app.py`.
"""
