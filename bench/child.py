"""One contender doing one task in its own process: `python -m bench.child CONTENDER`, task on stdin, answer on stdout.

Own process, because peak memory and warm caches belong to whoever caused them.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import sys
import traceback
from dataclasses import asdict

from bench.tasks import Answer, Task

CONTENDERS = (
    "upshot", "on_demand", "duckdb", "clingo", "souffle", "pathway", "spark", "graphframes", "pipeline", "subscribers",
    "realizations", "realization_targets", "clingo_realizations", "large", "shortest_paths", "tpch",
    "live_queries", "activations", "kept_answers", "programs", "differential", "frames",
)  # fmt: skip


def main(argv: list[str]) -> int:
    (contender,) = argv
    if contender not in CONTENDERS:
        raise SystemExit(f"no such contender: {contender}")
    task = Task.from_json(json.loads(sys.stdin.read()))
    chatter = io.StringIO()
    with contextlib.redirect_stdout(chatter):
        try:
            answer = importlib.import_module(f"bench.contenders.{contender}").run(task)
        except ImportError as error:
            # Only the contender's own package may be missing; a fault of ours is an error.
            if (error.name or "").partition(".")[0] != contender or contender == "upshot":
                raise
            answer = Answer(missing=f"{contender} is not installed")
        except Exception:  # noqa: BLE001 - whatever went wrong is reported by the parent, with its traceback
            answer = Answer(error=traceback.format_exc()[-2000:] + chatter.getvalue()[-1000:])
    sys.stdout.write(json.dumps(asdict(answer)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
