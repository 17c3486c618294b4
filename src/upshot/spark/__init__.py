"""Spark for the other packages: the session, types, locations, failures.

Comes in: a Spark session. Goes out: frames of our types, files at a URI, errors of ours.
Read `session`, then `location`, `workspace`, `preflight`, `types`, `failures`, `lent_rows`.
"""
