"""Checked program in, checked program out: the normal form, magic sets, the rules of view updating.

Read `shapes` (what clauses are made of), `normalize` (the normal form that all strategies take), `demand` (magic sets,
linear recursion, views without stored rows), `changes` (rules for a change of rules), `view_updates`. Each result
passes `check` again; `stratified` puts its views in order and `listing` prints generated rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from upshot.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from upshot.rewrite.normalize.normal_form import normal_form
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "normal_form": "upshot.rewrite.normalize.normal_form",
        },
    )

__all__ = ["normal_form"]
