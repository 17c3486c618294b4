"""Actions of active rules: functions, and what runs after a commit."""
