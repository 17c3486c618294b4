"""The names of the strategies that a user can request; each is also the name of its module here.

Below everything that reads programs: the checker offers these names, `strategy` finds the records behind them.
"""

WITH_RULES = ("maintenance", "counting", "bf", "production", "rod", "epf", "propagation", "differencing")
"""The strategies with rules to print, in the order of messages and help."""

NAMES = (*WITH_RULES, "recompute")

AGGREGATE = "aggregate"
"""The strategy of views of aggregate values. It is chosen by the shape of a view alone; users cannot request it."""
