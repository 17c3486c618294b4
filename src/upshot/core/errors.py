"""The exceptions that users can see, classified by their remedy.

Error                  every error Upshot raises on purpose
├── ProgramError       the program text is wrong: read `.diagnostics`, change the text
├── DataError          the data do not fit: a type, a key, a file; nothing was applied
│   └── OverflowError_ a number left its type's range during evaluation
├── ConstraintError    a `.deny` constraint rejected the transaction; `.violations` names the witnesses
├── RuleError          an active rule failed, vetoed, or triggered others without end; nothing was committed
├── UsageError         the call is wrong: an unknown name, a closed database, an option that does not exist
├── EngineError        the engine could not continue: a limit, memory, a lost worker
│   └── LimitError     a stated bound was reached; raise it or change the program
└── VerifyError        a stored view differs from its definition: a bug in Upshot, please report it
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from upshot.core.diagnostic import Diagnostic, did_you_mean, render_all
from upshot.core.span import Span


class Error(Exception):
    """`code` is stable, `span` the place in the program if there is one, `help` the remedy."""

    retryable = False
    views: frozenset[str] = frozenset()
    """The views whose rules were running, if the engine knows them."""

    def __init__(self, message: str, *, code: str, span: Span | None = None, help: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.span = span
        self.help = help

    def diagnostic(self) -> Diagnostic:
        return Diagnostic(self.code, self.message, self.span, help=self.help)

    def __str__(self) -> str:
        return str(self.diagnostic())


class ProgramError(Error):
    """All diagnostics of the run. After a syntax error, `understood` is the tree of the part that could be parsed."""

    def __init__(self, diagnostics: Sequence[Diagnostic], understood: Any = None) -> None:
        first = diagnostics[0]
        super().__init__(first.message, code=first.slug, span=first.span, help=first.help)
        self.diagnostics = tuple(diagnostics)
        self.understood = understood

    def __str__(self) -> str:
        return render_all(self.diagnostics)


class DataError(Error):
    pass


class OverflowError_(DataError):
    pass


class ConstraintError(Error):
    """`violations`: the witnesses by constraint, or the rows with the same key by relation. `places`: the definitions
    of these constraints or relations; `span` is the first."""

    def __init__(
        self,
        message: str,
        *,
        code: str,
        violations: Mapping[str, Sequence[tuple[Any, ...]]],
        places: Mapping[str, Span | None] | None = None,
        help: str = "",
    ) -> None:
        self.places = {name: span for name, span in (places or {}).items() if span is not None}
        super().__init__(message, code=code, span=next(iter(self.places.values()), None), help=help)
        self.violations = dict(violations)

    def diagnostic(self) -> Diagnostic:
        notes = tuple((span, f"`{name}` is defined here") for name, span in list(self.places.items())[1:])
        label = "violated" if self.span is not None else ""
        return Diagnostic(self.code, self.message, self.span, label=label, help=self.help, notes=notes)


class RuleError(Error):
    """`trace`: the rules of a cascade without end, in the order in which they fired."""

    def __init__(
        self, message: str, *, code: str, span: Span | None = None, trace: Sequence[str] = (), help: str = ""
    ) -> None:
        super().__init__(message, code=code, span=span, help=help)
        self.trace = tuple(trace)


class Veto(Error):
    """Raised by the function of a rule to reject its transaction."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="vetoed")


class UsageError(Error):
    pass


class EngineError(Error):
    pass


class LimitError(EngineError):
    pass


class VerifyError(Error):
    pass


class QueryWarning(UserWarning):
    """A valid query that probably does not mean what its author intends; `diagnostic` has place and help."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(f"{diagnostic.message}; {diagnostic.help}")
        self.diagnostic = diagnostic


def unknown_relation(
    name: str, known: Iterable[str], *, otherwise: str | None = None, code: str = "unknown-relation"
) -> UsageError:
    """The error for an unknown relation in Datalog, SQL, calls, requests and files. Its help is the closest known name,
    or else `otherwise`. An empty name is not shown.

    >>> print(unknown_relation("edeg", ["edge", "path"]))
    error[unknown-relation]: unknown relation `edeg`
      = help: did you mean `edge`?
    """
    names = sorted(known)
    if otherwise is None:
        listed = ", ".join(f"`{each}`" for each in names[:10]) + (", …" if len(names) > 10 else "")
        otherwise = f"the relations are {listed}" if names else "define a program first"
    message = f"unknown relation `{name}`" if name else "unknown relation"
    return UsageError(message, code=code, help=did_you_mean(name, names) or otherwise)


def system_reason(error: OSError) -> str:
    """The reason of an error of the operating system, in lower case and without its number.

    >>> system_reason(FileNotFoundError(2, "No such file or directory"))
    'no such file or directory'
    """
    return (error.strerror or str(error)).lower()


def counted(number: float, noun: str) -> str:
    """`1 view`, `2,000 views`, `0.5 seconds`."""
    shown = f"{number:,}" if isinstance(number, int) else f"{number:g}"
    return f"{shown} {noun}{'s' * (number != 1)}"
