"""NULL in the bodies of rules: it joins with nothing, so that no instance needs it in two places, and a negated literal
with it in is true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from upshot.check.names.variables import variables
from upshot.revise.request import Key
from upshot.revise.rules import RuleParts, ground
from upshot.syntax.ast import Variable


def joins_null(rule: RuleParts, binding: Mapping[str, object]) -> bool:
    """Whether the rule would have to find NULL equal to NULL for these values of its variables."""
    nulls = {name for name, value in binding.items() if value is None}
    if not nulls:
        return False
    places = Counter(term.name for atom in rule.positive for term in atom.args if isinstance(term, Variable))
    return any(places[name] > 1 for name in nulls)


def denied(rule: RuleParts, binding: Mapping[str, object]) -> Iterator[Key]:
    """The rows that must not be there for the rule to derive anything with these values, as far as they are known."""
    for atom in rule.negative:
        if binding.keys() >= {*variables(atom)} and None not in (key := ground(atom, binding))[1]:
            yield key
