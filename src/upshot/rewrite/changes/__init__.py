"""Rules that compute changes of views without stored rows.

In: a program, or an old and a new one. Out: rules that derive the net changes. Read `change_rules` (shared by all
strategies without stored views), `changes_of_rules` (changed programs), `screening` (irrelevant rows).
"""
