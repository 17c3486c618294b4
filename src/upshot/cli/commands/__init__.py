"""One file per command; each takes a terminal and its arguments and returns an exit code, None for 0."""
