"""Stories told on data: what a change means for the views above it."""
