"""Types of terms and clauses.

Clauses in; typed clauses whose constants are converted and whose NULL cases are split out. Read `kinds`, `constants`,
`elaborate`, `nullability`.
"""
