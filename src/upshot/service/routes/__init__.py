"""The routes of the service, one module each.

Requests in; answers out. Shared code is in `wire`, `access`, `feed` and `writing`. To add one: a module here, its line
in `service/app.py`, the model of a new body or answer in `service/wire/shapes.py`.
"""
