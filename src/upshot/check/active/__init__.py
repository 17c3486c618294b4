"""Active rules: events, conditions, activations and what they trigger.

Rule items in; checked rules and warnings about rules that disturb each other out. Read `active_rules`, `conditions`,
`transitions`, `triggering`.
"""
