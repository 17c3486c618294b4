"""Output of commands: terminal, tables, diagnostics, pictures, exit codes."""
