"""Requests and answers as bytes: bounds, bodies, errors, pages, streams.

Read `wire`, `gate`, `bodies`, `answers`; `shapes` describes bodies and answers in OpenAPI.
"""
