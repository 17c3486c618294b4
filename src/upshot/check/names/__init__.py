"""Relations, types and variables by name.

Declarations in; schemas, resolved names and fresh variables out. Read `relations`, `type_names`, `names`,
`variables`.
"""
