"""Changes of programs and of rows that are not stored.

Old and new rules, or changed rows, in; the rules that compute what follows out. Read `change_rules`,
`changes_of_rules`.
"""
