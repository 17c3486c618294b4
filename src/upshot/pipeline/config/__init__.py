"""The configuration file of a pipeline.

TOML in; checked settings with their places out. Read `config`.
"""
