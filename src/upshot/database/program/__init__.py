"""The program of a database and its changes.

Text in; a compiled program, and the changes of views that follow from new rules out. Read `compile`, `definitions`,
`redefine`.
"""
