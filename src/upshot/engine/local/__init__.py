"""The embedded engine: in process, compiled kernels, no Java."""

from upshot.engine.local.engine import LocalEngine

__all__ = ["LocalEngine"]
