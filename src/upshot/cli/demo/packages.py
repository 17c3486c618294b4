"""A registry of a few thousand packages, made up but shaped like real ones: layers, hubs, several versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_FIRST = _words(
    "async atom auth batch binary blob block buffer byte cache chunk cli cloud code color command config cookie "
    "core cron crypto csv data date debug deep delta diff dom edge env error event fast file flat flow form fs "
    "git glob graph hash header hex http image index ini input inline ip iso json jwt key lazy left lib line link "
    "list load local lock log map mark math media merge meta mime mini mock multi net node object once open pad "
    "page pair parse patch path pipe pixel poll pool port proc promise proxy query queue quick rate raw react "
    "read regex retry rich right ring route safe schema scope search seed self semver send serial session set "
    "shell short simple slim smart socket sort split sql stack state static stream string strip style sub sync "
    "table tag task temp test text thread time tiny token tool trace tree trie true tuple type unit uri url utf "
    "uuid value vector view watch web wide worker xml yaml zip"
)
_SECOND = _words(
    "adapter agent api array bench bridge builder bundle chain check client codec compat compiler context control "
    "convert cursor decode deps detect driver dump emitter encode engine escape exec extend factory filter find "
    "fold format gateway gen guard handler helper hooks icons info inspect iter kit layer limit loader logger "
    "lookup loop machine manager matcher middleware mixin model monitor mux names normalize pack pad parser "
    "plugin pretty print provider pump range reader reduce register relay render reporter resolve router runner "
    "sanitize scan server sniff spec store stringify support switch table tail template throttle tokenizer "
    "transform trim types walk wrap writer"
)
_SERVICES = _words(
    "auth billing cart catalog chat checkout coupons crm dashboard delivery documents email exports feed files "
    "fraud gateway geo identity images import insights inventory invoices jobs ledger licences loyalty mail maps "
    "media messaging metrics notifications orders partners payments photos planning pricing profiles promotions "
    "push quotes ratings recommendations refunds reports returns reviews risk scheduler search sessions shipping "
    "signup sms social stock storefront subscriptions support surveys tax tickets timeline tracking translations "
    "uploads video vouchers warehouse webhooks wishlist"
)
TEAMS = _words("checkout core-platform data fulfilment growth identity media mobile payments search security support")
_FOUNDATION = "left-trim"
"""The package that everybody needs and nobody remembers."""


@dataclass(frozen=True, slots=True)
class Registry:
    """`packages` are `name@version`, foundations first: a package depends only on packages before it."""

    packages: Sequence[str]
    depends: Sequence[tuple[str, str]]
    runs: Sequence[tuple[str, str]]
    owner: Sequence[tuple[str, str]]


def registry(seed: int = 1, *, size: int = 4000) -> Registry:
    """The same registry for the same seed."""
    random = Random(seed)
    packages = _packages(random, size)
    depends = _depends(random, packages)
    owner, runs = _services(random, packages)
    return Registry(packages, depends, runs, owner)


def _packages(random: Random, size: int) -> list[str]:
    names = [f"{first}-{second}" for first in _FIRST for second in _SECOND if first != second]
    random.shuffle(names)
    names.remove(_FOUNDATION)
    return [f"{name}@{_version(random)}" for name in (_FOUNDATION, *names[: size - 1])]


def _version(random: Random) -> str:
    return f"{random.choice((0, 1, 1, 1, 2, 2, 3, 4, 5, 7))}.{random.randrange(20)}.{random.randrange(12)}"


_LAYERS = (0.05, 0.12, 0.20, 0.30, 0.42, 0.56, 0.70, 0.85, 1.0)
"""Where each layer ends, as a part of the registry; the first has no dependencies."""


def _depends(random: Random, packages: Sequence[str]) -> list[tuple[str, str]]:
    """Most dependencies go one layer down, the rest to popular packages of any lower layer: these become hubs."""
    ends = [round(part * len(packages)) for part in _LAYERS]
    edges: list[tuple[str, str]] = []
    for layer in range(1, len(ends)):
        lower = range(0 if layer == 1 else ends[layer - 2], ends[layer - 1])
        for position in range(ends[layer - 1], ends[layer]):
            chosen = {_popular(random, lower) for _ in range(random.choice((1, 1, 2, 3, 4, 5)))}
            chosen |= {_popular(random, range(ends[layer - 1])) for _ in range(random.choice((0, 1, 1, 2)))}
            edges += [(packages[position], packages[other]) for other in sorted(chosen)]
    return edges


def _popular(random: Random, among: range) -> int:
    """A position, the first ones far more often than the last."""
    return among[int(len(among) * random.random() ** 2.6)]


def _services(random: Random, packages: Sequence[str]) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    top = range(len(packages) // 2, len(packages))
    owner, runs = [], []
    for name in _SERVICES:
        service = f"{name}-service"
        owner.append((service, random.choice(TEAMS)))
        installed = random.sample(top, random.choice((2, 3, 4, 6, 8)))
        runs += [(service, packages[position]) for position in sorted(installed)]
    return owner, runs
