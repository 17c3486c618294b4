"""The names of the strategies that a user can request; each is also the name of its module here.

The checker reads these names without importing the strategies; `strategy_named` finds the records.
"""

WITH_RULES = ("maintenance", "counting", "bf", "production", "rod", "epf", "propagation", "differencing")
"""The strategies with rules to print, in the order of messages and help."""

NAMES = (*WITH_RULES, "recompute")

AGGREGATE = "aggregate"
"""The strategy of aggregate views. It depends on the shape of a view alone; users cannot request it."""
