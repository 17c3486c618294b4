"""The version of each sink, as the state remembers it beside the sink's own report."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from upshot.core.errors import DataError
from upshot.pipeline.lock import unusable_state, writing
from upshot.pipeline.sinks.folders import write_json
from upshot.spark.lake_path import AnyPath


@dataclass(frozen=True, slots=True)
class Standing:
    """`held` is the version the sink said it holds, -1 before it was started; `seen` the version of the store up to
    which nothing is missing there: versions that do not change the view leave no trace in a sink."""

    held: int
    seen: int

    @property
    def is_announced(self) -> bool:
        """Test whether the start of the sink was announced and its result is unknown."""
        return self.held < 0


ANNOUNCED = Standing(-1, -1)


def read_standings(file: AnyPath) -> dict[str, Standing]:
    """By place of the sink; empty for a state that is new."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return {place: Standing(int(found["held"]), int(found["seen"])) for place, found in content.items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise unusable_state(file.parent, error) from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise DataError(
            f"`{file}`, which records the versions of the sinks, is damaged",
            code="state-mismatch",
            help="restore the whole state from a backup, or remove it and the sinks to start over",
        ) from None


def write_standings(file: AnyPath, standings: dict[str, Standing]) -> None:
    with writing(file.parent):
        write_json(file, {place: asdict(standing) for place, standing in standings.items()})
