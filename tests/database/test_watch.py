from __future__ import annotations

import logging
import threading

import pytest

import upshot

Seen = list[tuple[int, bool, list[tuple[object, ...]], list[tuple[object, ...]]]]


def insert(db: upshot.Database, *rows: tuple[object, ...]) -> None:
    with db.transaction() as tx:
        tx.insert("edge", rows)


def record(seen: Seen) -> object:
    return lambda event: seen.append((event.version, event.snapshot, event.inserted.sorted(), event.deleted.sorted()))


def test_the_first_event_holds_all_rows_and_then_come_exact_changes(paths: upshot.Database) -> None:
    seen: Seen = []
    insert(paths, (1, 2))
    start = paths.version
    subscription = paths.watch("path", record(seen))
    insert(paths, (2, 3))
    insert(paths, (2, 3))
    with paths.transaction() as tx:
        tx.delete("edge", [(1, 2)])
    assert seen == [
        (start, True, [(1, 2)], []),
        (start + 1, False, [(1, 3), (2, 3)], []),
        (start + 2, False, [], [(1, 2), (1, 3)]),
    ]
    assert subscription.version == start + 2


def test_changes_of_other_relations_and_rolled_back_ones_are_silent(stock: upshot.Database) -> None:
    seen: Seen = []
    stock.watch("low", record(seen))
    with stock.transaction() as tx:
        tx.insert("quantity", [("a", 5)])
    with pytest.raises(upshot.ConstraintError), stock.transaction() as tx:
        tx.insert("quantity", [("b", -5)])

    def interrupted() -> None:
        with stock.transaction() as tx:
            tx.insert("threshold", [("a", 50)])
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    assert len(seen) == 1
    with stock.transaction() as tx:
        tx.insert("threshold", [("a", 50)])
    assert seen[-1][2] == [("a",)]


def test_base_relations_can_be_watched(paths: upshot.Database) -> None:
    seen: Seen = []
    paths.watch("edge", record(seen))
    insert(paths, (1, 2))
    assert [event[2] for event in seen] == [[], [(1, 2)]]


def test_since_the_current_version_skips_the_first_event(paths: upshot.Database) -> None:
    seen: Seen = []
    insert(paths, (1, 2))
    paths.watch("path", record(seen), since=paths.version)
    assert seen == []
    insert(paths, (5, 6))
    assert [event[2] for event in seen] == [[(5, 6)]]
    with pytest.raises(upshot.UsageError) as error:
        paths.watch("path", record(seen), since=paths.version - 1)
    assert error.value.code == "history-not-kept"


def test_a_closed_subscription_hears_nothing(paths: upshot.Database) -> None:
    seen: Seen = []
    with paths.watch("path", record(seen)) as subscription:
        insert(paths, (1, 2))
    insert(paths, (2, 3))
    subscription.close()
    assert len(seen) == 2
    assert not subscription.active


def test_a_callback_may_end_its_own_subscription(paths: upshot.Database) -> None:
    seen: list[int] = []
    subscriptions: list[upshot.Subscription] = []

    def once(event: upshot.Event) -> None:
        seen.append(event.version)
        if not event.snapshot:
            subscriptions[0].close()

    subscriptions.append(paths.watch("path", once))
    insert(paths, (1, 2))
    insert(paths, (2, 3))
    assert len(seen) == 2


def test_a_failing_callback_harms_neither_the_commit_nor_other_watchers(
    paths: upshot.Database, caplog: pytest.LogCaptureFixture
) -> None:
    seen: Seen = []

    def fail(event: upshot.Event) -> None:
        raise RuntimeError("no")

    bad = paths.watch("path", fail)
    paths.watch("path", record(seen))
    with caplog.at_level(logging.ERROR, logger="upshot.watch"):
        insert(paths, (1, 2))
    assert paths.rows("path") == {(1, 2)}
    assert len(seen) == 2
    assert [str(error) for error in bad.errors] == ["no", "no"]
    assert "`path`" in caplog.text
    insert(paths, (2, 3))
    assert len(seen) == 3


def test_a_callback_that_commits_is_heard_in_order_by_all(paths: upshot.Database) -> None:
    heard: list[tuple[str, int]] = []

    def grow(event: upshot.Event) -> None:
        heard.append(("grow", event.version))
        top = max((y for _, y in event.inserted), default=0)
        if 0 < top < 5:
            insert(paths, (top, top + 1))
            heard.append(("committed", paths.version))

    def listen(event: upshot.Event) -> None:
        heard.append(("listen", event.version))

    paths.watch("edge", grow)
    paths.watch("edge", listen)
    start = paths.version
    insert(paths, (1, 2))
    assert paths.rows("edge") == {(1, 2), (2, 3), (3, 4), (4, 5)}
    for name in ("grow", "listen"):
        assert [version for who, version in heard if who == name] == [start, *range(start + 1, start + 5)]
    # Both hear of a commit before either hears of the next.
    order = [version for who, version in heard if who != "committed"]
    assert order == sorted(order)


def test_a_callback_may_query_and_watch(paths: upshot.Database) -> None:
    inner: Seen = []
    sizes: list[int] = []

    def nosy(event: upshot.Event) -> None:
        sizes.append(len(paths.query("path(X, Y)")))
        if not event.snapshot and not inner:
            paths.watch("path", record(inner))

    paths.watch("edge", nosy)
    insert(paths, (1, 2), (2, 3))
    assert sizes == [0, 3]
    assert inner[0][2] == [(1, 2), (1, 3), (2, 3)]
    insert(paths, (3, 4))
    assert [event[1] for event in inner] == [True, False]


def test_watching_inside_a_transaction_starts_before_it(paths: upshot.Database) -> None:
    seen: Seen = []
    with paths.transaction() as tx:
        tx.insert("edge", [(1, 2)])
        paths.watch("path", record(seen))
    assert [event[1:3] for event in seen] == [(True, []), (False, [(1, 2)])]


def test_watchers_follow_a_redefinition(paths: upshot.Database) -> None:
    seen: Seen = []
    insert(paths, (1, 2), (2, 3))
    paths.watch("path", record(seen))
    paths.define("path(X, Y) :- edge(X, Y).")
    assert seen[-1][1:] == (False, [], [(1, 3)])
    paths.define(".decl path(x: number)  path(X) :- edge(X, _).")
    assert seen[-1][1:] == (True, [(1,), (2,)], [])
    insert(paths, (7, 8))
    assert seen[-1][1:] == (False, [(7,)], [])


def test_what_if_is_not_heard(paths: upshot.Database) -> None:
    seen: Seen = []
    paths.watch("path", record(seen))
    paths.what_if(insert={"edge": [(1, 2)]})
    assert len(seen) == 1


def test_wrong_calls_of_watch_are_refused(paths: upshot.Database) -> None:
    with pytest.raises(upshot.UsageError) as error:
        paths.watch("pth", print)
    assert error.value.code == "unknown-relation"
    with pytest.raises(upshot.UsageError) as error:
        paths.watch("path", None)  # type: ignore[arg-type]
    assert error.value.code == "wrong-argument"


def test_an_interrupted_callback_loses_no_events(paths: upshot.Database) -> None:
    seen: Seen = []
    interrupts = [KeyboardInterrupt()]

    def interrupted(event: upshot.Event) -> None:
        if not event.snapshot and interrupts:
            raise interrupts.pop()

    paths.watch("path", interrupted)
    paths.watch("path", record(seen))
    with pytest.raises(KeyboardInterrupt):
        insert(paths, (1, 2))
    insert(paths, (2, 3))
    assert len(seen) == 3


def test_many_threads_commit_and_every_watcher_hears_every_version_once_and_in_order(paths: upshot.Database) -> None:
    heard: dict[str, list[int]] = {"a": [], "b": []}
    rows: set[tuple[object, ...]] = set()

    def follow(event: upshot.Event) -> None:
        heard["a"].append(event.version)
        rows.difference_update(event.deleted)
        rows.update(event.inserted)

    paths.watch("path", follow)
    paths.watch("path", lambda event: heard["b"].append(event.version))

    def work(number: int) -> None:
        for step in range(12):
            insert(paths, (number, 100 + number * 20 + step))
            assert len(paths.query("edge($n, Y)", n=number)) == step + 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert heard["a"] == list(range(1, 1 + 1 + 6 * 12))
    assert heard["b"] == heard["a"]
    assert paths.rows("path") == rows
    paths.verify()


def test_read_and_write_in_one_transaction_loses_no_update(db: upshot.Database) -> None:
    db.define('.decl counter(name: symbol, n: number) key(name)  counter("c", 0).')

    def work() -> None:
        for _ in range(20):
            with db.transaction() as tx:
                [(value,)] = db.query('counter("c", N)')
                tx.upsert("counter", [("c", value + 1)])

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert db.rows("counter") == {("c", 100)}


def test_readers_do_not_wait_for_an_open_transaction(paths: upshot.Database) -> None:
    insert(paths, (1, 2))
    answers: list[upshot.Rows] = []
    with paths.transaction() as tx:
        tx.insert("edge", [(2, 3)])
        reader = threading.Thread(target=lambda: answers.append(paths.query("path(X, Y)")))
        reader.start()
        reader.join(timeout=120)
        assert not reader.is_alive()
    assert answers[0] == {(1, 2)}
