"""The kernel: a small machine over raw memory, in Python and as machine code.

In: instructions. Out: staged changes. Read `layout`, `memory`, `sets`, `changes`, `instructions`, `heads`, `kernel`;
then `plain`, `compiled` and `machine` (its two forms), `cells` and `walks` (closures), `crew` and `sharing` (threads).
"""
