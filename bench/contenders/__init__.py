"""One file per contender; each has `run(task) -> Answer` and imports nothing that the others need."""
