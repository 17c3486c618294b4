"""`upshot rewrite`: the rules that compute the changes of views, as text."""

from __future__ import annotations

import json
from pathlib import Path

from upshot.check.program import CheckedProgram
from upshot.cli.programs import checked_file, known_view
from upshot.cli.settings import OK
from upshot.cli.terminal import Terminal
from upshot.core.diagnostic import Diagnostic, did_you_mean
from upshot.core.errors import ProgramError, UsageError
from upshot.rewrite import counting, maintenance, normal_form, print_maintenance, print_production, production

_HERE = ("maintenance", "counting", "production")
_LATER = ("rod", "epf", "differencing", "propagation", "bf")
_WITHOUT_RULES = ("recompute", "auto")


def rewrite(terminal: Terminal, file: Path, strategy: str, view: str | None) -> int:
    _available(strategy)
    checked = checked_file(terminal, file)
    view = known_view(checked.schemas, view)
    normal = normal_form(checked)
    text = _rules(strategy, normal, view)
    if terminal.json:
        terminal.data(json.dumps({"strategy": strategy, "view": view, "rules": text}, ensure_ascii=False))
    else:
        terminal.data(text.rstrip("\n"))
    return OK


def _rules(strategy: str, normal: CheckedProgram, view: str | None) -> str:
    if strategy == "production":
        return print_production(production(normal), view=view)
    generated = maintenance(normal) if strategy == "maintenance" else counting(normal, None if view is None else [view])
    if not generated.rules:
        raise UsageError(
            "no view of the program is without recursion: there is nothing to count",
            code="strategy-not-applicable",
            help="use `--strategy maintenance`",
        )
    return print_maintenance(generated, view=view)


def _available(strategy: str) -> None:
    if strategy in _HERE:
        return
    if strategy in _LATER:
        raise ProgramError(
            [
                Diagnostic(
                    "not-yet",
                    f"the rules of strategy `{strategy}` are not part of this version",
                    help="use `--strategy maintenance` or `--strategy counting`",
                )
            ]
        )
    printed = " or ".join(f"`--strategy {name}`" for name in _HERE)
    if strategy in _WITHOUT_RULES:
        raise UsageError(
            f"strategy `{strategy}` has no rules of its own to print",
            code="strategy-without-rules",
            help=f"use {printed}; `upshot explain` says how each view is kept",
        )
    raise UsageError(
        f"there is no strategy `{strategy}`",
        code="unknown-strategy",
        help=did_you_mean(strategy, _HERE) or f"use {printed}",
    )
