"""Input of commands: program files, change files, rows, requests and values."""
