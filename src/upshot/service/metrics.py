"""What operators look at: counters and times for Prometheus, never a value of the data, never an unbounded label."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """One registry for each service, so that several can live in a process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        make: dict[str, Any] = {"registry": self.registry, "namespace": "upshot"}
        self.commits = Counter("commits", "Versions that became durable.", **make)
        self.rejections = Counter("rejections", "Transactions that were refused.", ["code"], **make)
        self.commit_seconds = Histogram(
            "commit_seconds", "From the arrival of a transaction to its answer.", buckets=_SECONDS, **make
        )
        self.group_size = Histogram(
            "group_size", "Transactions made durable together.", buckets=(1, 2, 5, 10, 20, 50, 100), **make
        )
        self.queue = Gauge("queue_length", "Transactions that wait for the writer.", **make)
        self.outbox = Gauge("outbox_length", "What rules have still to do after their commits.", **make)
        self.late_calls = Counter("late_calls", "Functions called by rules that did not return in time.", **make)
        self.version = Gauge("version", "The last version.", **make)
        self.subscribers = Gauge("subscribers", "Clients that follow changes.", ["kind"], **make)
        self.sent = Counter("sent_bytes", "Bytes of answers and events.", ["kind"], **make)
        self.events = Counter("events", "Events sent to those who follow.", ["kind"], **make)
        self.disconnections = Counter("disconnections", "Streams ended by the server.", ["reason"], **make)
        self.deliveries = Counter("webhook_deliveries", "Webhook deliveries.", ["outcome"], **make)
        self.requests = Counter("requests", "Answered requests.", ["route", "method", "status"], **make)
        self.request_seconds = Histogram(
            "request_seconds", "From a request to the head of its answer.", ["route"], buckets=_SECONDS, **make
        )

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self.registry)
