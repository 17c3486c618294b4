"""SQL to the same tree as Datalog text: see `program.py` for definitions and `query.py` for questions.

Nothing here is imported before SQL is met: sqlglot takes longer to load than a small program takes to run.
"""
