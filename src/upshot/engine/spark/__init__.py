"""The engine on Spark DataFrames."""
