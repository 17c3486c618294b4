"""The monitoring service: views over HTTP, their exact changes to whoever follows them."""
