"""The kernel: a small machine over raw memory, in Python and as machine code.

Instructions in; staged changes out. Read `layout`, `memory`, `sets`, `changes`, `instructions`, `kernel`; then
`plain`, `compiled` and `machine`.
"""
