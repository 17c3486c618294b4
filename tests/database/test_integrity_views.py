"""The eighty integrity views of the ConceptBase workload: one transaction is refused for three of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import upshot
from bench.integrity import constraints, program
from bench.modules import Modules

NAMES = list(constraints())
NEW = {"undefined", "unmeasured", "untitled"}
"""What an import of a procedure that nobody declared violates."""


@pytest.fixture(scope="module")
def modules() -> Modules:
    return Modules(1)


@pytest.fixture
def warning(modules: Modules) -> Iterator[upshot.Database]:
    """All eighty, told and not enforced."""
    with upshot.connect() as db:
        db.define(program(NAMES, "auto"))
        for tables in modules.arrow():
            with db.transaction() as tx:
                for name, table in tables.items():
                    tx.insert(name, table)
        yield db


def _link(db: upshot.Database) -> tuple[str, str]:
    """An import of nothing known, by a module with few imports."""
    (module,) = min(db.rows("module").sorted(), key=lambda row: len(db.query("import($m, P)", m=row[0])))[:1]
    return module, "nowhere"


@pytest.mark.slow
def test_a_transaction_is_refused_for_the_three_of_eighty_that_it_violates(warning: upshot.Database) -> None:
    db = warning
    kept = {name: set(db.rows(name)) for name in NAMES}
    assert len(NAMES) == 80
    assert any(kept.values())
    made = db.define("".join(f".deny {name} existing=keep\n" for name in NAMES))
    said = [warning for warning in made.warnings if warning.slug == "violations-kept"]
    assert len(said) == sum(bool(rows) for rows in kept.values())
    link = _link(db)
    with pytest.raises(upshot.ConstraintError) as error, db.transaction() as tx:
        tx.insert("import", [link])
    assert error.value.violations == {name: [link] for name in NEW}
    for name in NEW:
        assert f'{name}("{link[0]}", "nowhere")' in error.value.message
        assert error.value.places[name].text.startswith(name)
    assert {name: set(db.rows(name)) for name in NAMES} == kept
    assert link not in set(db.rows("import"))


@pytest.mark.slow
def test_where_they_warn_the_same_transaction_commits_and_is_told(warning: upshot.Database) -> None:
    db, link = warning, _link(warning)
    seen: list[list[tuple[object, ...]]] = []
    with db.watch("undefined", lambda event: seen.append(event.inserted.sorted())), db.transaction() as tx:
        tx.insert("import", [link])
    assert tx.violations == {name: [link] for name in NEW}
    assert len(tx.warnings) == 3
    assert seen[-1] == [link]
    with db.transaction() as tx:
        tx.delete("import", [link])
    assert tx.repaired == {name: [link] for name in NEW}
    db.verify()
