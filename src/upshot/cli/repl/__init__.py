"""The interactive session. Read `statements` (splitting input), then `session` (executing statements)."""
