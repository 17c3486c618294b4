"""Components of views and the strategies that maintain them.

Rule plans and changed rows in; exact changes out. Read `assemble`, `runner`, `phases`, `component`, `visits`.
"""
