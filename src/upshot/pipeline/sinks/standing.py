"""How far each sink is, as the state remembers it beside what the sink itself says."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from upshot.pipeline.sinks.folders import write_json


@dataclass(frozen=True, slots=True)
class Standing:
    """`held` is the version the sink said it holds, -1 before it was started; `seen` the version of the store up to
    which nothing is missing there: versions that do not change the view leave no trace in a sink."""

    held: int
    seen: int


def read_standings(file: Path) -> dict[str, Standing]:
    """By place of the sink; empty for a state that is new."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return {place: Standing(**fields) for place, fields in content.items()}


def write_standings(file: Path, standings: dict[str, Standing]) -> None:
    write_json(file, {place: asdict(standing) for place, standing in standings.items()})
