"""Open a store: create one in an empty directory, refuse other directories, recover the state."""

from __future__ import annotations

import datetime as dt
import fcntl
import json
import os
import socket
import sqlite3
import uuid
from contextlib import closing
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upshot.core.errors import UsageError
from upshot.spark.lake_path import LakePath
from upshot.store.acknowledged import Mark, MarkFile, read_mark, refuse_lost, unmarked
from upshot.store.errors import damaged, failed
from upshot.store.folders import ACKNOWLEDGED, DELTAS, LOCK, LOG, NEW_LOG, SNAPSHOTS, UNFINISHED
from upshot.store.log import FORMAT, Log, create_log, header_format
from upshot.store.recovery import Recovered, recover
from upshot.store.retention import Retention
from upshot.store.store import Store

if TYPE_CHECKING:
    from upshot.store.lake import LakeLog, Mirror, TemporaryRoot


def open_store(path: str | os.PathLike[str], retention: Retention = Retention()) -> Store:  # noqa: B008 - immutable
    """The store in this database directory, locked and recovered; a new one if the directory is new or empty. An error
    leaves an existing store unchanged."""
    try:
        root = Path(path).absolute()
    except TypeError:
        message = f"a database directory is a path, not {type(path).__name__}"
        raise UsageError(message, code="wrong-argument", help='as in upshot.connect("dir/")') from None
    try:
        refuse_others(root)
        root.mkdir(parents=True, exist_ok=True)
        lock = StoreLock(root)
    except OSError as error:
        raise failed(f"be opened at `{root}`", error) from error
    try:
        if not (root / LOG).exists():
            _create(root)
        recovered = _recovered(root)
        log = Log(root)
        return _opened(root, lock, log, recovered, retention)
    except BaseException:
        lock.release()
        raise


def open_lake_store(path: LakePath, session: Any, retention: Retention = Retention()) -> Store:  # noqa: B008
    """The store at this URI, taken over and recovered; a new one if there is nothing."""
    # They import Arrow, which a database in memory does not need.
    from upshot.store.lake import LakeLog, Mirror, TemporaryRoot, load, refuse_others_on_lake, whole_log  # noqa: PLC0415
    from upshot.store.record_table import BASE, Record, unguarded  # noqa: PLC0415

    refuse_others_on_lake(path)
    temporary = TemporaryRoot()
    root = temporary.path
    try:
        table, last = load(session, path, root)
        if last < 0:
            _create(root)
            last = 0
            table.append(Record(0, BASE, whole_log(root)))
        log = LakeLog(root, table, last)
        # The first record of this process: the previous owner can write no more.
        log.complete(identity := uuid.uuid4().hex)
        store = _mirrored(root, temporary, log, retention, Mirror(path, root, identity))
        store.warnings = unguarded(session, path)
        return store
    except BaseException as error:
        temporary.release()
        if isinstance(error, OSError | sqlite3.Error):
            raise failed(f"be opened at `{path}`", error) from error
        raise


def _mirrored(root: Path, temporary: TemporaryRoot, log: LakeLog, retention: Retention, mirror: Mirror) -> Store:
    try:
        _check_format(root, log)
        log.check_small()
        return Store(root, temporary, log, recover(log, root, mirror), retention, mirror)
    except BaseException:
        log.close()
        raise


def refuse_others(root: Path) -> None:
    """`UsageError` or `store-damaged` if the directory is neither a store nor empty."""
    if root.exists() and not root.is_dir():
        raise _not_a_store(root, "is a file")
    if (root / UNFINISHED).exists():
        raise UsageError(
            f"`{root}` is an incomplete backup",
            code="backup-unfinished",
            help="remove the directory and repeat the backup",
        )
    if (root / LOG).exists():
        found = header_format(root)
        if found is None:
            raise _not_a_store(root, f"has a `{LOG}` that something else wrote")
        _refuse_newer(root, found)
        return
    names = {each.name for each in root.iterdir()} if root.exists() else set()
    if names & {SNAPSHOTS, DELTAS} or (read_mark(root) or Mark()) > Mark():
        raise damaged(f"`{root / LOG}` is missing")
    foreign = sorted(name for name in names - {LOCK, ACKNOWLEDGED} if not name.startswith(NEW_LOG))
    if foreign:
        raise _not_a_store(root, f"holds `{foreign[0]}` and no store")


def _create(root: Path) -> None:
    made = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    try:
        software = f"upshot {metadata.version('upshot')}"
        create_log(root, {"format": str(FORMAT), "created_by": software, "created_at": made})
    except (OSError, sqlite3.Error, metadata.PackageNotFoundError) as error:
        # Without free file descriptors a package is reported as not found.
        raise failed(f"be made at `{root}`", error) from error


def _opened(root: Path, lock: StoreLock, log: Log, recovered: Recovered, retention: Retention) -> Store:
    try:
        log.complete(uuid.uuid4().hex)
        warnings = unmarked(root, log.reached())
        log.begin(root)
        store = Store(root, lock, log, recovered, retention)
        store.warnings = warnings
        return store
    except BaseException as error:
        log.close()
        if isinstance(error, OSError | sqlite3.Error):
            raise failed(f"be opened at `{root}`", error) from error
        raise


def _recovered(root: Path, *, lossy: bool = False) -> Recovered:
    """Recover from a read-only log, so that a damaged store stays unchanged."""
    reader = Log(root, read_only=True)
    try:
        _check_format(root, reader)
        if not lossy:
            refuse_lost(root, reader.reached())
        reader.check_small()
        return recover(reader, root)
    finally:
        reader.close()


def accept_loss(root: Path) -> tuple[int, int]:
    """Make the version that a damaged log still reaches the last one, with a new identity; that version, and the last
    committed one. Nothing changes if no commit is lost."""
    if not (root / LOG).exists():
        raise _not_a_store(root, "is not a store")
    refuse_others(root)
    lock = StoreLock(root)
    try:
        version = _recovered(root, lossy=True).version
        mark = read_mark(root) or Mark(version)
        with closing(Log(root)) as log, closing(MarkFile(root, Mark())) as marked:
            found = log.reached()
            if mark.version > found.version or mark.writes > found.writes:
                log.rename(uuid.uuid4().hex)
                marked.lower(found)
        return version, max(version, mark.version)
    except (OSError, sqlite3.Error) as error:
        raise failed(f"be opened at `{root}`", error) from error
    finally:
        lock.release()


def _check_format(root: Path, log: Log) -> None:
    found = log.meta().get("format", "")
    if not found.isdigit():
        raise damaged(f"`{root / LOG}` does not say which format it has")
    _refuse_newer(root, int(found))


def _refuse_newer(root: Path, found: int) -> None:
    if found > FORMAT:
        raise UsageError(
            f"the store `{root}` has format {found}; this version of Upshot reads up to format {FORMAT}",
            code="store-newer",
            help="nothing was changed; open it with a newer version of Upshot",
        )


def _not_a_store(root: Path, why: str) -> UsageError:
    return UsageError(f"`{root}` {why}", code="not-a-store", help="name a database directory, or a new or empty one")


# ---- the lock -----------------------------------------------------------------------------------------


class StoreLock:
    """Held until `release` or the end of the process: the system keeps the lock, not the file."""

    def __init__(self, root: Path) -> None:
        path = root / LOCK
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.pread(self._descriptor, 4096, 0)
            os.close(self._descriptor)
            raise _locked(root, owner) from None
        text = json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode()
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text, 0)

    def release(self) -> None:
        """Releasing twice is allowed. The file stays: removing it could break the lock of another process."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _locked(root: Path, owner: bytes) -> UsageError:
    try:
        found = json.loads(owner)
        who = "this process" if _is_this(found) else f"process {found['pid']} on `{found['host']}`"
    except (ValueError, KeyError, TypeError):
        who = "another process"
    return UsageError(
        f"the store `{root}` is open in {who}",
        code="store-locked",
        help="close it there first; one process at a time opens a store",
    )


def _is_this(owner: dict[str, object]) -> bool:
    return owner["pid"] == os.getpid() and owner["host"] == socket.gethostname()
