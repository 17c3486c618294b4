"""Relations, types and variables by name.

Input: declarations. Output: schemas, resolved names and fresh variables. Read `relations`, `type_names`, `names`,
`variables`.
"""
