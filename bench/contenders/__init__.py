"""One file per contender; each has `run(task) -> Answer` and does not import packages of other contenders."""
