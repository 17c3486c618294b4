"""The dependencies demo, a package registry: advisories, upgrades, a cycle, and a change without an effect."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random

from upshot.cli.demo.story import Facts, Story, StoryTransaction, program_text


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
"""A package that most packages need."""


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
"""The end of each layer, as a fraction of the registry; the first layer has no dependencies."""


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
    """A random position; the first ones are far more frequent than the last."""
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


SUMMARY = "services that depend on a vulnerable package (recursion, negation, an aggregate)"
_ADVISORY = "ADV-2026-031"


def dependencies(size: int = 4000) -> Story:
    """The steps choose packages of the generated registry for which their effects are interesting."""
    world = _DemoWorld(registry(size=size))
    facts: Facts = {
        "depends": world.depends,
        "runs": world.runs,
        "owner": world.owner,
        "vulnerable": [(package, f"ADV-2026-{number:03d}") for number, package in enumerate(world.weak, start=1)],
    }
    steps = tuple(_steps(world))
    return Story(
        name="dependencies",
        summary=SUMMARY,
        opening=(
            f"{size:,} packages, {len(world.depends):,} dependencies between them, {len(world.owner)} services of "
            f"{len(TEAMS)} teams. Which services depend on a vulnerable package, directly or not?"
        ),
        program=program_text("dependencies"),
        facts=facts,
        steps=steps,
        shows=("exposed", "safe", "exposed_count", "cycle", "depends_on"),
    )


class _DemoWorld:
    """The state of the registry between two steps."""

    def __init__(self, made: Registry) -> None:
        self.packages = made.packages
        self.depends = made.depends
        self.runs = made.runs
        self.owner = made.owner
        self.needs: dict[str, set[str]] = defaultdict(set)
        self.needed_by: dict[str, set[str]] = defaultdict(set)
        for package, dependency in made.depends:
            self.link(package, dependency)
        self.installed = {service: {p for s, p in made.runs if s == service} for service, _ in made.owner}
        self.weak = self._initially_weak()

    def link(self, package: str, dependency: str) -> None:
        self.needs[package].add(dependency)
        self.needed_by[dependency].add(package)

    def unlink(self, package: str, dependency: str) -> None:
        self.needs[package].discard(dependency)
        self.needed_by[dependency].discard(package)

    def above(self, package: str) -> set[str]:
        """Everything that depends on the package, directly or not."""
        return _reach(package, self.needed_by)

    def below(self, package: str) -> set[str]:
        return _reach(package, self.needs)

    def exposed_services(self, package: str) -> list[str]:
        users = self.above(package) | {package}
        return [service for service, packages in self.installed.items() if packages & users]

    def _initially_weak(self) -> list[str]:
        """The initially vulnerable packages: some that one to three services use."""
        found = (p for p in self.packages if len(self.needs[p]) > 1 and len(self.exposed_services(p)) in (1, 2, 3))
        return list(islice(found, 0, 60, 6))


def _reach(start: str, neighbors: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for other in neighbors.get(waiting.pop(), ()):
            if other not in found:
                found.add(other)
                waiting.append(other)
    return found


def _steps(world: _DemoWorld) -> Iterator[StoryTransaction]:
    weak = _weak_package(world)
    yield StoryTransaction(
        "An advisory is published",
        f"{_ADVISORY} names {weak}. {len(world.needed_by[weak])} packages need it directly, "
        f"{len(world.above(weak)):,} in all. Who is affected?",
        insert={"vulnerable": [(weak, _ADVISORY)]},
    )
    yield _upgrade(world, weak)
    yield _second_path(world)
    yield _patch(world, weak)
    yield _deployment(world)
    yield from _cycle(world)
    yield _nightly(world)


def _weak_package(world: _DemoWorld) -> str:
    """A package that some packages need directly and about a third of the services indirectly."""
    third = len(world.owner) // 3
    candidates = [package for package in world.packages if 6 <= len(world.needed_by[package]) <= 20]
    return min(candidates, key=lambda package: abs(len(world.exposed_services(package)) - third))


def _bumped(package: str, *, major: bool = False) -> str:
    name, _, version = package.rpartition("@")
    first, second, third = map(int, version.split("."))
    return f"{name}@{first + 1}.0.0" if major else f"{name}@{first}.{second}.{third + 1}"


def _upgrade(world: _DemoWorld, weak: str) -> StoryTransaction:
    """One service, exposed through one installed package, moves to a version without the weak dependency."""
    users = world.above(weak)
    through = {service: world.installed[service] & users for service in world.exposed_services(weak)}
    service = next(service for service, packages in sorted(through.items()) if len(packages) == 1)
    old = through[service].pop()
    new = _bumped(old, major=True)
    kept = sorted(d for d in world.needs[old] if d != weak and weak not in world.below(d))
    world.installed[service] = world.installed[service] - {old} | {new}
    for dependency in kept:
        world.link(new, dependency)
    return StoryTransaction(
        f"{service} upgrades",
        f"It moves from {old} to {new}, which no longer depends on {weak}.",
        delete={"runs": [(service, old)]},
        insert={"runs": [(service, new)], "depends": [(new, dependency) for dependency in kept]},
    )


def _second_path(world: _DemoWorld) -> StoryTransaction:
    """A dependency that is also reached another way, in a package that some other packages need."""
    package, dependency, other = next(
        (package, dependency, other)
        for package in world.packages[len(world.packages) // 3 :]
        if len(world.needed_by[package]) >= 3
        for dependency in sorted(world.needs[package])
        for other in sorted(world.needs[package] - {dependency})
        if dependency in world.below(other)
    )
    world.unlink(package, dependency)
    return StoryTransaction(
        "Two paths, one removed",
        f"{package} no longer depends on {dependency} directly. It still needs it through {other}, so no view changes.",
        delete={"depends": [(package, dependency)]},
    )


def _patch(world: _DemoWorld, weak: str) -> StoryTransaction:
    fixed = _bumped(weak)
    moved = sorted(world.needed_by[weak])
    inserted = [(fixed, dependency) for dependency in sorted(world.needs[weak])]
    for package in moved:
        world.unlink(package, weak)
        world.link(package, fixed)
    for _, dependency in inserted:
        world.link(fixed, dependency)
    return StoryTransaction(
        "A patch is released",
        f"{fixed} closes {_ADVISORY}, and all {len(moved)} packages that need it directly move to it "
        "in one transaction.",
        delete={"depends": [(package, weak) for package in moved]},
        insert={"depends": [*((package, fixed) for package in moved), *inserted]},
    )


def _deployment(world: _DemoWorld) -> StoryTransaction:
    weak = set(world.weak)
    risky = next(p for p in world.packages[len(world.packages) // 2 :] if weak & world.below(p))
    harmless = next(p for p in reversed(world.packages) if not weak & (world.below(p) | {p}))
    service = "forecast-service"
    world.installed[service] = {risky, harmless}
    return StoryTransaction(
        f"{service} is deployed",
        f"The data team ships it with {risky} and {harmless}. Is it safe on its first day?",
        insert={"owner": [(service, "data")], "runs": [(service, risky), (service, harmless)]},
    )


def _cycle(world: _DemoWorld) -> Iterator[StoryTransaction]:
    """A foundation starts to need one of the packages built on it: small enough to read, large enough to matter."""
    low, high = next(
        (low, high)
        for low in world.packages[len(world.packages) // 8 :]
        if 3 <= len(world.above(low)) <= 40
        for high in sorted(world.needed_by[low])
        if world.needed_by[high]
    )
    edge = [(low, high)]
    yield StoryTransaction(
        "A cycle appears",
        f"{low} now needs {high}, which needs {low}. The constraint `cycle` only warns, so the "
        "transaction is committed and the packages on the cycle are reported.",
        insert={"depends": edge},
    )
    yield StoryTransaction(
        "The cycle is broken",
        f"{low} drops the dependency again. On a cycle every pair seems to support itself, but "
        "exactly the pairs that the last insert added are deleted.",
        delete={"depends": edge},
    )


def _nightly(world: _DemoWorld) -> StoryTransaction:
    random = Random(2)
    changed = random.sample([p for p in world.packages[len(world.packages) // 2 :] if world.needs[p]], 60)
    delete = [(package, sorted(world.needs[package])[0]) for package in changed]
    insert = [(package, _unused(world, random, package)) for package in changed]
    return StoryTransaction(
        "The nightly sync arrives",
        f"{len(changed)} packages each replace one dependency: {2 * len(changed)} changes, one transaction.",
        delete={"depends": delete},
        insert={"depends": insert},
    )


def _unused(world: _DemoWorld, random: Random, package: str) -> str:
    lower: Iterable[str] = world.packages[: len(world.packages) // 2]
    return random.choice([p for p in lower if p not in world.needs[package]])
