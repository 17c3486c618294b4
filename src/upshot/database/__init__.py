"""Programs and transactions in, answers and exact changes out. Start reading at `compile.py` and `commit.py`."""
