"""Input of commands: program files, change files, rows and values."""
