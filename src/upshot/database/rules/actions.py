"""The functions that rules call, and how they are called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from upshot.active.firing import arguments
from upshot.core.diagnostic import did_you_mean
from upshot.core.errors import Error, RuleError, UsageError, Veto
from upshot.engine.user_functions import Fold

if TYPE_CHECKING:
    from upshot.active.firing import Firing
    from upshot.check.program import CheckedRule, RuleAction

Function = Callable[..., object]
_NOT_COMMITTED = "nothing was committed; "
_COMMITTED = "the transaction is committed; the call stays in the outbox; "
_NOT_RUN_BY_A_CALL = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)


class Actions:
    """Functions by name. A function that is called for a set gets the list of its rows, one that is called for each
    instance gets the values, and so does one with a parameter for each of several values; a parameter `firing` gets the
    firing."""

    def __init__(self) -> None:
        self._functions: dict[str, Function] = {}
        self._takes_firing: dict[str, bool] = {}
        self._needed: dict[str, int] = {}
        self._signatures: dict[str, inspect.Signature | None] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._functions

    def register(self, name: str, function: Function | Fold) -> None:
        """Register a function under the name that rules use, or replace it. A fold is no action."""
        if isinstance(function, Fold):
            return
        is_name = isinstance(name, str) and name.replace("?", "_").isidentifier()
        if not is_name or not callable(function):
            message = f"the action `{name}` is not callable" if is_name else f"`{name}` is not a valid action name"
            raise UsageError(message, code="wrong-argument", help='as in db.action("notify", function)')
        if any(kind(function) for kind in _NOT_RUN_BY_A_CALL):
            message = f"the action `{name}` is a coroutine or a generator"
            raise UsageError(message, code="wrong-argument", help="pass an ordinary function that runs it")
        self._functions[name] = function
        signature = self._signatures[name] = _signature(function)
        parameters = () if signature is None else tuple(signature.parameters.values())
        self._takes_firing[name] = any(each.name == "firing" and each.kind in _BY_NAME for each in parameters)
        self._needed[name] = sum(each.kind in _BY_PLACE and each.default is each.empty for each in parameters)
        self._needed[name] -= any(each.name == "firing" and each.kind in _BY_PLACE for each in parameters)

    def require(self, rule: CheckedRule) -> None:
        """Raise if a function that the rule calls is missing or has other parameters."""
        for fault in self.faults(rule, _NOT_COMMITTED):
            raise fault

    def faults(self, rule: CheckedRule, outcome: str = "") -> Iterator[RuleError]:
        """The errors that prevent a rule's calls; their help begins with the `outcome`."""
        for action in rule.actions:
            if action.kind == "call" and action.target not in self._functions:
                yield self._unknown(rule, action, outcome)
            elif action.kind == "call" and not self._fits(action, rule.per):
                yield _wrong_signature(rule.name, action, rule.per, outcome)

    def _unknown(self, rule: CheckedRule, action: RuleAction, outcome: str) -> RuleError:
        cure = f'db.action("{action.target}", function), `--actions FILE.py`, or `actions` in a pipeline file'
        return RuleError(
            f"rule `{rule.name}` calls `{action.target}`, which is not registered",
            code="unknown-action",
            span=action.span or rule.span,
            help=did_you_mean(action.target, self._functions) or f"{outcome}register it with {cure}",
        )

    def _fits(self, action: RuleAction, per: str) -> bool:
        """Test whether the function accepts the arguments of the rule's call."""
        signature = self._signatures[action.target]
        if signature is None:
            return True
        count = 1 if per == "set" and not self._wants_values(action) else len(action.columns)
        try:
            signature.bind(*range(count), **({"firing": None} if self._takes_firing[action.target] else {}))
        except TypeError:
            return False
        return True

    def call(self, firing: Firing, action: RuleAction, per: str) -> None:
        """Call the function once for all rows, or once for each; each call after a commit has a key of its own.
        `RuleError` if its parameters do not fit."""
        if not self._fits(action, per):
            raise _wrong_signature(firing.rule, action, per, _COMMITTED if firing.key else _NOT_COMMITTED)
        function = self._functions[action.target]
        rows = arguments(firing.instances, action)
        if per == "set" and not self._wants_values(action):
            function(rows, **self._firing_argument(firing, action))
            return
        for place, row in enumerate(rows):
            one = replace(firing, key=f"{firing.key}-{place}") if firing.key else firing
            function(*row, **self._firing_argument(one, action))

    def _wants_values(self, action: RuleAction) -> bool:
        """Test whether the function has a parameter for each value, so that it cannot be called with one list."""
        return self._needed[action.target] == len(action.columns) > 1

    def _firing_argument(self, firing: Firing, action: RuleAction) -> Mapping[str, Any]:
        return {"firing": firing} if self._takes_firing[action.target] else {}


def failed_call(rule: str, action: RuleAction, error: Exception, *, committed: bool = False) -> RuleError:
    """The error of a failed function; it aborts the transaction of the call unless that is `committed`."""
    help = (_COMMITTED if committed else _NOT_COMMITTED).removesuffix("; ")
    if isinstance(error, Veto) and committed:
        message = f"rule `{rule}` cannot reject a committed transaction: {error.message}"
        help += "; a rule that rejects needs `coupling=deferred`"
        return RuleError(message, code="action-failed", span=action.span, help=help)
    if isinstance(error, Veto):
        message = f"rule `{rule}` rejected the transaction: {error.message}"
        return RuleError(message, code="vetoed", span=action.span, help=help)
    why = error.message if isinstance(error, Error) else f"{type(error).__name__}: {error}"
    message = f"`{action.target}`, called by rule `{rule}`, failed: {why}"
    return RuleError(message, code="action-failed", span=action.span, help=help)


def _wrong_signature(rule: str, action: RuleAction, per: str, outcome: str) -> RuleError:
    name, count = action.target, len(action.columns)
    values = f"`def {name}({', '.join(f'value{i + 1}' for i in range(count))})`"
    if per == "instance":
        passed, cure = f"{count} value{'s' * (count != 1)} for each instance", values
    else:
        passed, cure = "the list of its rows", f"`def {name}(rows)`"
        cure += f", or {values}, to be called for each" * (count > 1)
    return RuleError(
        f"rule `{rule}` calls `{name}` with {passed}, which does not match its parameters",
        code="action-signature",
        span=action.span,
        help=f"{outcome}define it as {cure}; a parameter `firing` is optional",
    )


def _signature(function: Function) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # some functions of extension modules have no signature
        return None


_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
