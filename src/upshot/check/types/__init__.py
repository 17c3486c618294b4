"""Types of terms and clauses.

Input: clauses. Output: typed clauses with converted constants, one for each NULL case. Read `kinds`, `constants`,
`elaborate`, `nullability`.
"""
