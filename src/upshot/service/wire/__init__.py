"""Requests and answers: size limits, bodies, errors, pages.

Read `wire`, `gate`, `bodies`, `answers`; `shapes` describes bodies and answers in OpenAPI.
"""
