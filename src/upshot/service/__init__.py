"""The monitoring service: a database over HTTP, and its clients told of every change."""
