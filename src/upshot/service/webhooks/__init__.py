"""Webhooks: deliveries to other servers, in order, each repeated until it is confirmed.

Read `webhooks`, `couriers`, `targets`, `deliveries`.
"""
