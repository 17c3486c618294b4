"""Webhooks: deliveries to other servers, in order, until they are confirmed.

Read `webhooks`, `couriers`, `targets`, `deliveries`.
"""
