"""Contenders in separate processes, one at a time. Answers are cached in files; the caller checks them."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from bench.tasks import Answer, Task

ROOT = Path(__file__).resolve().parent.parent
PATHWAY = ROOT / ".venv-pathway" / "bin" / "python"

QUICK_WORK = 3.0
"""Work that takes fewer seconds than this is repeated and the middle one counts."""


class Runner:
    """Asks each (contender, task) once; `say` hears what is going on."""

    PATIENCE = 1800.0
    """Seconds that a contender has for its answer, unless the runner is made with another bound."""

    def __init__(
        self, results: Path, say: Callable[[str], None], *, times: int = 3, patience: float = PATIENCE
    ) -> None:
        self._answers: dict[str, Answer] = {}
        self._results = results
        self._say = say
        self._times = times
        self._patience = patience

    def ask(self, contender: str, task: Task, limit: float | None = None) -> Answer:
        """The contender's answer; `missing` is set when it cannot take part here, `unfinished` when it needs more than
        `limit` seconds, `error` when it failed."""
        key = f"{contender} {json.dumps(task.to_json(), sort_keys=True)}"
        if key not in self._answers:
            self._answers[key] = self._middle(contender, task, limit)
        return self._answers[key]

    def _middle(self, contender: str, task: Task, limit: float | None) -> Answer:
        self._say(f"{contender}: {task.kind} {task.graph or ''} {task.options or ''}")
        answers = [self._once(contender, task, limit)]
        first = answers[0]
        if task.kind in ("closure", "same_generation") and not (first.missing or first.error or first.unfinished):
            while len(answers) < self._times and first.seconds < QUICK_WORK:
                answers.append(self._once(contender, task, limit))
        failed = [a for a in answers if a.error]
        return failed[0] if failed else sorted(answers, key=lambda a: a.seconds)[len(answers) // 2]

    def _once(self, contender: str, task: Task, limit: float | None) -> Answer:
        interpreter = _interpreter(contender)
        if interpreter is None:
            return Answer(missing=f"{contender} is not installed")
        began = time.perf_counter()
        try:
            process = subprocess.run(
                [interpreter, "-m", "bench.child", contender],
                input=json.dumps(task.to_json()),
                capture_output=True,
                text=True,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
                timeout=limit or self._patience,
                check=False,
            )
            answer = _parsed(process)
        except subprocess.TimeoutExpired:
            error = f"no answer within {self._patience:.0f} s"
            answer = Answer(error=error) if limit is None else Answer(unfinished=limit)
        self._write_down(contender, task, answer, time.perf_counter() - began)
        return answer

    def _write_down(self, contender: str, task: Task, answer: Answer, whole: float) -> None:
        self._results.parent.mkdir(parents=True, exist_ok=True)
        line = {
            "contender": contender,
            "task": task.to_json(),
            "answer": asdict(answer),
            "process_seconds": round(whole, 3),
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "python": platform.python_version(),
            "cores": os.cpu_count(),
        }
        with self._results.open("a") as file:
            file.write(json.dumps(line) + "\n")


def _interpreter(contender: str) -> str | None:
    if contender != "pathway":
        return sys.executable
    named = os.environ.get("UPSHOT_PATHWAY_PYTHON")
    if named:
        return named
    return str(PATHWAY) if PATHWAY.exists() else None


def _parsed(process: subprocess.CompletedProcess[str]) -> Answer:
    lines = process.stdout.strip().splitlines()
    if process.returncode != 0 or not lines:
        return Answer(error=f"ended with {process.returncode}\n{process.stderr[-3000:]}")
    return Answer(**json.loads(lines[-1]))
