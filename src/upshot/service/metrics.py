"""Metrics for Prometheus: counters and times, never a value of the data, never an unbounded label."""

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
        self.commits = Counter("commits", "Durable commits.", **make)
        self.rejections = Counter("rejections", "Rejected transactions.", ["code"], **make)
        self.commit_seconds = Histogram(
            "commit_seconds", "Time from a transaction to its response, in seconds.", buckets=_SECONDS, **make
        )
        self.group_size = Histogram(
            "group_size", "Transactions per group commit.", buckets=(1, 2, 5, 10, 20, 50, 100), **make
        )
        self.queue = Gauge("queue_length", "Length of the write queue.", **make)
        self.outbox = Gauge("outbox_length", "Pending calls of rules after their commits.", **make)
        self.kept_parameters = Gauge("kept_parameters", "Parameters whose answers are kept current.", **make)
        self.kept_rows = Gauge("kept_rows", "Rows of answers that are kept current.", **make)
        self.kept_hits = Gauge("kept_hits", "Queries answered from kept answers.", **make)
        self.late_calls = Counter("late_calls", "Functions called by rules that exceeded their time limit.", **make)
        self.version = Gauge("version", "The last version.", **make)
        self.subscribers = Gauge("subscribers", "Current subscribers.", ["kind"], **make)
        self.sent = Counter("sent_bytes", "Bytes of responses and events.", ["kind"], **make)
        self.events = Counter("events", "Events sent to subscribers.", ["kind"], **make)
        self.disconnections = Counter("disconnections", "Streams ended by the server.", ["reason"], **make)
        self.deliveries = Counter("webhook_deliveries", "Webhook deliveries.", ["outcome"], **make)
        self.requests = Counter("requests", "Requests.", ["route", "method", "status"], **make)
        self.request_seconds = Histogram(
            "request_seconds",
            "Time from a request to the head of its response, in seconds.",
            ["route"],
            buckets=_SECONDS,
            **make,
        )

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)
