"""A store with any of its files damaged opens with everything that was acknowledged, or is refused by name."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.properties.settings import case_count, seed_of
from tests.store.stores import PATHS, files, printed, small_is_large, state
from tests.store.test_kills import written_until_killed
from tests.store.writer import follow
from upshot.store.acknowledged import Mark, read_mark
from upshot.store.backup import back_up_from_outside
from upshot.store.opening import accept_loss

REFUSALS = {"store-damaged", "not-a-store", "store-newer", "saved-rows-unreadable"}
Damage = Callable[[random.Random, bytearray], None]


REFUSED = "refused when it is read"


def everything(db: upshot.Database) -> dict[str, Any]:
    """All that a caller was told is there. What opening does not need may be refused when it is read."""
    return {
        "state": state(db),
        "records": read(lambda: db.records("note").all()),
        "cursors": db.cursors.all(),
        "past": read(lambda: past(db)),
    }


def read(what: Callable[[], Any]) -> Any:
    try:
        return what()
    except upshot.EngineError as error:
        assert error.code == "store-damaged"  # noqa: PT017 - anything else is seen too
        return REFUSED


def past(db: upshot.Database) -> list[Any]:
    """Every commit, with its changes."""
    return [
        (each.version, {n: (printed(c.inserted), printed(c.deleted)) for n, c in each.changes.items()})
        for each in db.history(since=0)
    ]


@dataclass(frozen=True, slots=True)
class Image:
    """The folder of a store whose process was killed, and what it had acknowledged."""

    root: Path
    good: dict[str, Any]


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> list[Image]:
    """With a snapshot, commits in the log and in folders, records and cursors; closed, and as a kill leaves it."""
    place = tmp_path_factory.mktemp("images")
    root, found = place / "store", []
    with pytest.MonkeyPatch.context() as patch, small_is_large(patch, 3):
        with upshot.connect(root) as db:
            db.define(PATHS)
            for start in (0, 10, 20):
                with db.transaction(meta={"start": start}) as tx:
                    tx.insert("edge", [(start + i, start + i + 1) for i in range(4)])
                if start == 0:
                    db.snapshot()
            db.records("note").put("a", {"n": 1})
            found.append((shutil.copytree(root, place / "early"), everything(db)))
            for number in range(6):
                with db.transaction() as tx:
                    tx.insert("edge", [(100 + number, 101 + number)])
                db.cursors.set("reader", number + 2)
            db.records("note").put("b", {"n": 2})
            found.append((shutil.copytree(root, place / "late"), everything(db)))
            good = everything(db)
        found.append((root, good))
    return [Image(*each) for each in found]


def flip(dice: random.Random, data: bytearray) -> None:
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)


def overwrite(dice: random.Random, data: bytearray) -> None:
    start = dice.randrange(len(data))
    end = min(len(data), start + dice.choice((1, 8, 24, 512, 4096, 20_000)))
    data[start:end] = bytes(end - start) if dice.random() < 0.6 else dice.randbytes(end - start)


def cut(dice: random.Random, data: bytearray) -> None:
    del data[dice.randrange(len(data)) :]


def cut_frame(dice: random.Random, data: bytearray) -> None:
    """As long as a whole number of frames of SQLite's own log."""
    del data[32 + (4096 + 24) * dice.randrange(1 + len(data) // (4096 + 24)) :]


DAMAGES: tuple[Damage, ...] = (flip, flip, flip, overwrite, overwrite, cut, cut_frame)


def damage(dice: random.Random, root: Path) -> str:
    files = sorted(path for path in root.rglob("*") if path.is_file() and path.stat().st_size)
    logs = [path for path in files if path.name.startswith("log.sqlite")]
    path = dice.choice(logs if dice.random() < 0.7 else files)
    if dice.random() < 0.03:
        path.unlink()
        return f"{path.name} removed"
    how = dice.choice(DAMAGES)
    data = bytearray(path.read_bytes())
    how(dice, data)
    path.write_bytes(data)
    return f"{path.name} {how.__name__}"


def outcome_of(root: Path, look: Callable[[upshot.Database], None]) -> str:
    """`whole` if the store opens, once `look` has seen it; else the slug that it is refused with."""
    try:
        db = upshot.connect(root)
    except upshot.Error as error:
        return error.code
    with db:
        look(db)
    return "whole"


def test_a_damaged_store_opens_with_all_that_was_acknowledged_or_is_refused_by_name(
    images: list[Image], tmp_path: Path
) -> None:
    outcomes: Counter[str] = Counter()

    def look(db: upshot.Database) -> None:
        found = everything(db)
        expected = {key: REFUSED if found[key] == REFUSED else good for key, good in image.good.items()}
        assert found == expected, (number, what)

    for number in range(case_count(8, least=20)):
        dice = random.Random(seed_of("damage", number))
        image = dice.choice(images)
        root = shutil.copytree(image.root, tmp_path / "damaged", ignore=shutil.ignore_patterns("lock"))
        what = damage(dice, root)
        outcome = outcome_of(root, look)
        assert outcome == "whole" or outcome in REFUSALS, (number, what)
        outcomes[outcome] += 1
        shutil.rmtree(root)
    assert outcomes["store-damaged"]
    assert outcomes["whole"]


@pytest.fixture
def killed(images: list[Image], root: Path) -> Path:
    """The store as a kill left it: versions 5 to 10 are in SQLite's own log alone, or with others."""
    return shutil.copytree(images[1].root, root, ignore=shutil.ignore_patterns("lock"))


def _flip_in_first_frame(root: Path) -> None:
    path = root / "log.sqlite-wal"
    data = bytearray(path.read_bytes())
    data[32 + 24 + 100] ^= 1
    path.write_bytes(data)


def test_a_bit_that_flips_in_the_write_ahead_log_is_refused_with_the_versions_that_are_lost(killed: Path) -> None:
    _flip_in_first_frame(killed)
    before = files(killed)
    with pytest.raises(upshot.EngineError, match=r"versions 1 to 10 were committed") as caught:
        upshot.connect(killed)
    assert caught.value.code == "store-damaged"
    assert f"continue from version 0: `upshot accept-loss {killed}`" in caught.value.help
    with pytest.raises(upshot.EngineError, match=r"versions 1 to 10 were committed"):
        back_up_from_outside(killed, killed.with_name("copy"))
    assert files(killed) == before


def test_a_loss_that_is_accepted_leaves_an_earlier_version_under_another_identity(
    images: list[Image], killed: Path
) -> None:
    path = killed / "log.sqlite-wal"
    os.truncate(path, path.stat().st_size - 3 * (4096 + 24))
    with pytest.raises(upshot.EngineError, match="store is damaged"):
        upshot.connect(killed)
    left, lost = accept_loss(killed)
    assert 4 <= left <= lost == 10
    with upshot.connect(shutil.copytree(images[1].root, killed.with_name("whole"))) as db:
        identity = db.identity
        earlier = [each for each in everything(db)["past"] if each[0] <= left]
    with upshot.connect(killed) as db:
        assert (db.version, db.identity != identity, everything(db)["past"]) == (left, True, earlier)
        with db.transaction() as tx:
            tx.insert("edge", [(500, 501)])
    assert accept_loss(killed) == (left + 1, left + 1)
    with upshot.connect(killed) as db:
        assert db.version == left + 1


def test_a_write_ahead_log_that_is_removed_after_a_kill_is_refused(killed: Path) -> None:
    for name in ("log.sqlite-wal", "log.sqlite-shm"):
        (killed / name).unlink()
    with pytest.raises(upshot.EngineError, match="were committed and cannot be read"):
        upshot.connect(killed)


def test_records_that_the_write_ahead_log_has_lost_are_missed_too(images: list[Image], root: Path) -> None:
    shutil.copytree(images[2].root, root)
    with upshot.connect(root) as db:
        size = (root / "log.sqlite-wal").stat().st_size if (root / "log.sqlite-wal").exists() else 0
        db.records("note").put("c", {"n": 3})
        image = shutil.copytree(root, root.with_name("image"), ignore=shutil.ignore_patterns("lock"))
    os.truncate(image / "log.sqlite-wal", size)
    with pytest.raises(upshot.EngineError, match="records or cursors written after version 10"):
        upshot.connect(image)


def test_a_damaged_mark_is_no_damage_of_the_store(images: list[Image], killed: Path) -> None:
    (killed / "acknowledged").write_bytes(b"\0" * 96)
    with upshot.connect(killed) as db:
        assert everything(db) == images[1].good


@pytest.mark.parametrize("content", [None, b"", b'{"version": 99, "writes": 0, "crc": 1}'])
def test_a_mark_that_cannot_be_read_is_warned_of_and_written_anew(killed: Path, content: bytes | None) -> None:
    mark = killed / "acknowledged"
    mark.unlink() if content is None else mark.write_bytes(content)
    with upshot.connect(killed) as db:
        (warning,) = db.warnings
        assert warning.slug == "acknowledged-missing"
        assert f"commits after version {db.version}" in warning.message
        version = db.version
    assert read_mark(killed) == Mark(version, read_mark(killed).writes)  # type: ignore[union-attr]
    with upshot.connect(killed) as db:
        assert db.warnings == ()


def test_an_older_version_without_its_mark_is_not_opened_silently(killed: Path) -> None:
    (killed / "acknowledged").unlink()
    with (killed / "log.sqlite-wal").open("r+b") as log:
        log.seek(-5_000, os.SEEK_END)
        byte = log.read(1)[0]
        log.seek(-1, os.SEEK_CUR)
        log.write(bytes([byte ^ 1]))
    with upshot.connect(killed) as db:
        assert [each.slug for each in db.warnings] == ["acknowledged-missing"]
        assert f"version {db.version}" in db.warnings[0].message


def test_a_new_store_has_no_warning(root: Path) -> None:
    for _ in range(2):
        with upshot.connect(root) as db:
            assert db.warnings == ()


def test_a_log_that_is_missing_is_not_replaced_by_an_empty_one(root: Path) -> None:
    with upshot.connect(root) as db:
        db.define(".decl r(x: number)")
    (root / "log.sqlite").unlink()
    with pytest.raises(upshot.EngineError, match="is missing") as caught:
        upshot.connect(root)
    assert caught.value.code == "store-damaged"


@pytest.mark.slow
def test_damage_after_a_real_kill_loses_nothing_that_was_acknowledged_silently(root: Path, tmp_path: Path) -> None:
    dice = random.Random(seed_of("damage after kills", 0))
    acknowledged, refused = 1, 0

    def look(db: upshot.Database) -> None:
        assert db.version in (acknowledged, acknowledged + 1), (number, what)
        expected = follow(range(2, db.version + 1))
        assert {name: set(db.rows(name)) for name in expected} == expected, (number, what)

    for number in range(case_count(100, least=3)):
        acknowledged = written_until_killed(root, dice.uniform(0.0, 0.3), False) or acknowledged
        for _ in range(6):
            copy = shutil.copytree(root, tmp_path / "copy", ignore=shutil.ignore_patterns("lock"))
            what = damage(dice, copy)
            outcome = outcome_of(copy, look)
            assert outcome == "whole" or outcome in REFUSALS, (number, what)
            refused += outcome != "whole"
            shutil.rmtree(copy)
        with upshot.connect(root) as db:
            acknowledged = db.version
    assert refused


def test_a_bit_that_flips_in_rows_of_the_past_is_refused_when_they_are_read(images: list[Image], killed: Path) -> None:
    """Version 2 is older than the snapshot: opening the store does not need it."""
    path = next(killed.glob("deltas/v000002/edge.inserted/*.parquet"))
    data = bytearray(path.read_bytes())
    data[8] ^= 1
    path.write_bytes(data)
    with upshot.connect(killed) as db:
        assert state(db) == images[1].good["state"]
        (change,) = [each.changes["edge"] for each in db.history(since=1) if each.version == 2]
        with pytest.raises(upshot.EngineError, match="does not hold the bytes that were written"):
            list(change.inserted)


def test_a_schema_whose_names_are_no_text_is_refused_by_name(images: list[Image], root: Path) -> None:
    shutil.copytree(images[2].root, root)
    path = root / "log.sqlite"
    data = path.read_bytes()
    path.write_bytes(data.replace(b"CREATE TABLE records", b"CREATE TABLE \xe6\xff(cords", 1))
    with pytest.raises(upshot.EngineError) as caught:
        upshot.connect(root)
    assert caught.value.code == "store-damaged"
