"""Starburst's rule processing: windows, net effects, order; and what goes wrong in any other reading of it."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace

import pytest

from tests.rewrites.pairs import checked
from tests.rewrites.production_host import Host, PythonSets, Row, Rows
from upshot.check import CheckedProgram
from upshot.core.errors import ProgramError
from upshot.core.operations import DELETED, INSERTED
from upshot.engine import rule_processor
from upshot.engine.rule_processor import (
    ChangeWindow,
    RowEvent,
    RuleProcessor,
    ScheduledRule,
    Transition,
    in_order,
    net_effect,
)
from upshot.rewrite import normal_form
from upshot.strategies.production_rules import RulePurpose, production
from upshot.syntax.ast import Not

UNIONS = """
.decl a(x: number) .decl b(x: number) .decl c(x: number) .decl p(x: number) .decl u(x: number)
p(X) :- a(X). p(X) :- b(X). u(X) :- c(X), !p(X).
"""
JOIN = """
.decl q(x: number, y: number) .decl r(x: number, y: number) .decl p(x: number, y: number)
p(X, Z) :- q(X, Y), r(Y, Z).
"""
CHAIN = """
.decl a(x: number) .decl b(x: number) .decl e(x: number, y: number) .decl p(x: number)
p(X) :- a(X). p(X) :- b(X). p(Y) :- p(X), e(X, Y).
"""


def normal(text: str) -> CheckedProgram:
    return normal_form(checked(text))


def rows(*numbers: int) -> Rows:
    return frozenset((number,) for number in numbers)


# ---- transitions ------------------------------------------------------------------------------


def effect(*events: tuple[str, Rows]) -> tuple[Rows, Rows]:
    found = net_effect([RowEvent(time, *event) for time, event in enumerate(events)], PythonSets())
    return found.inserted, found.deleted


def test_inserted_and_then_deleted_is_nothing() -> None:
    assert effect((INSERTED, rows(1, 2)), (DELETED, rows(1))) == (rows(2), rows())


def test_deleted_and_then_inserted_is_both() -> None:
    assert effect((DELETED, rows(1, 2)), (INSERTED, rows(1))) == (rows(1), rows(1, 2))


def test_longer_histories_are_told_by_their_first_and_last_event() -> None:
    assert effect((INSERTED, rows(1)), (DELETED, rows(1)), (INSERTED, rows(1))) == (rows(1), rows())
    assert effect((DELETED, rows(1)), (INSERTED, rows(1)), (DELETED, rows(1))) == (rows(), rows(1))


def test_each_change_is_considered_exactly_once_by_each_rule() -> None:
    rules = [ScheduledRule("one", (("r", INSERTED),)), ScheduledRule("two", (("r", INSERTED), ("s", DELETED)))]
    processor: RuleProcessor[Rows] = RuleProcessor(rules, PythonSets())
    processor.changed("r", INSERTED, rows(1))
    seen: dict[str, list[Rows]] = {"one": [], "two": []}
    later = [("r", rows(2)), ("r", rows(3))]
    while (turn := processor.next()) is not None:
        seen[turn.rule.name].append(turn.window.of("r").inserted)
        if later:
            relation, more = later.pop()
            processor.changed(relation, INSERTED, more)
    for windows in seen.values():
        assert sorted(row for window in windows for row in window) == [(1,), (2,), (3,)]
    assert seen["one"][0] == rows(1)


def test_a_rule_sees_what_its_own_action_does_in_its_next_window() -> None:
    processor: RuleProcessor[Rows] = RuleProcessor([ScheduledRule("one", (("r", INSERTED),))], PythonSets())
    processor.changed("r", INSERTED, rows(1))
    first = processor.next()
    processor.changed("r", INSERTED, rows(2))
    second = processor.next()
    assert first is not None
    assert second is not None
    assert (first.window.of("r").inserted, second.window.of("r").inserted) == (rows(1), rows(2))
    assert (first.number, second.number) == (1, 2)
    assert processor.next() is None


def test_a_rule_whose_trigger_was_undone_has_no_turn() -> None:
    processor: RuleProcessor[Rows] = RuleProcessor([ScheduledRule("one", (("r", INSERTED),))], PythonSets())
    processor.changed("r", INSERTED, rows(1))
    processor.changed("r", DELETED, rows(1))
    assert processor.next() is None


def test_rules_of_one_rank_can_have_their_turn_together() -> None:
    rules = [
        ScheduledRule("first", (("r", INSERTED),), rank=(1,), generated=True),
        ScheduledRule("beside", (("r", INSERTED),), rank=(1,), generated=True),
        ScheduledRule("after", (("r", INSERTED),), rank=(2,), generated=True),
        ScheduledRule("idle", (("r", DELETED),), rank=(1,), generated=True),
        ScheduledRule("user", (("r", INSERTED),), rank=(1,)),
    ]
    processor: RuleProcessor[Rows] = RuleProcessor(rules, PythonSets())
    processor.changed("r", INSERTED, rows(1))
    seen: list[tuple[list[str], list[Rows]]] = []
    while turns := processor.together():
        seen.append(([turn.rule.name for turn in turns], [turn.window.of("r").inserted for turn in turns]))
        if len(seen) == 1:
            processor.changed("r", INSERTED, rows(2))
    assert seen == [
        (["first", "beside"], [rows(1), rows(1)]),
        (["first", "beside"], [rows(2), rows(2)]),
        (["after"], [rows(1, 2)]),
        (["user"], [rows(1, 2)]),
    ]


# ---- order ------------------------------------------------------------------------------------


def test_rules_run_by_rank_unless_they_are_ordered_otherwise() -> None:
    rules = [
        ScheduledRule("c", (), rank=(1,)),
        ScheduledRule("b", (), rank=(3,), precedes=("a",)),
        ScheduledRule("a", (), rank=(0,)),
        ScheduledRule("d", (), rank=(0,), follows=("c",)),
    ]
    assert [rule.name for rule in in_order(rules)] == ["c", "d", "b", "a"]


def test_rules_of_one_rank_run_in_the_order_of_their_definition() -> None:
    assert [rule.name for rule in in_order([ScheduledRule("z", ()), ScheduledRule("a", ())])] == ["z", "a"]


def test_an_order_that_contradicts_itself_is_rejected_and_named() -> None:
    rules = [
        ScheduledRule("a", (), precedes=("b",)),
        ScheduledRule("b", (), precedes=("c",)),
        ScheduledRule("c", (), precedes=("a",)),
        ScheduledRule("d", (), follows=("c",)),
    ]
    with pytest.raises(ProgramError) as error:
        RuleProcessor(rules, PythonSets())
    assert error.value.code == "rule-order-cycle"
    assert error.value.message == "cyclic order of rules: `a` before `b` before `c` before `a`"


def test_a_rule_ordered_by_an_unknown_one_is_rejected() -> None:
    with pytest.raises(ProgramError) as error:
        in_order([ScheduledRule("reorder", (), precedes=("tell",)), ScheduledRule("tells", ())])
    assert error.value.code == "unknown-rule"
    assert "did you mean `tells`?" in error.value.help


# ---- traps ------------------------------------------------------------------------------------


def chain(**options: bool) -> Host:
    host = Host(normal(CHAIN), **options)
    host.change(insert={"a": [(1,)], "b": [(1,)], "e": [(1, 2), (2, 3), (3, 4)]})
    return host


def test_a_row_inserted_again_brings_back_what_rests_on_it() -> None:
    host = chain()
    assert host.change(delete={"a": [(1,)]})["p"] == (set(), set())
    assert ("p", DELETED, rows(1)) in host.written
    assert host.is_right()


def test_canceling_reinsertions_loses_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    def cancelled(events: Iterable[RowEvent[Rows]], sets: PythonSets) -> Transition[Rows]:
        both = net_effect(events, sets)
        return Transition(both.inserted - both.deleted, both.deleted - both.inserted)

    monkeypatch.setattr(rule_processor, "net_effect", cancelled)
    host = chain()
    host.change(delete={"a": [(1,)]})
    assert not host.is_right()


@pytest.mark.parametrize(("text", "deleted"), [(JOIN, {"q": [(1, 2)], "r": [(2, 3)]})])
def test_old_is_the_state_before_the_window_and_not_the_current_one(text: str, deleted: dict[str, list[Row]]) -> None:
    for old_is_current in (False, True):
        host = Host(normal(text), old_is_current=old_is_current)
        host.change(insert=deleted)
        host.change(delete=deleted)
        assert host.is_right() is not old_is_current


def test_old_of_a_view_is_its_state_before_the_window_too() -> None:
    text = """
    .decl a(x: number) .decl b(x: number) .decl p(x: number) .decl q(x: number) .decl both(x: number)
    p(X) :- a(X). q(X) :- b(X). both(X) :- p(X), q(X).
    """
    for old_is_current in (False, True):
        host = Host(normal(text), old_is_current=old_is_current)
        host.change(insert={"a": [(1,)], "b": [(1,)]})
        host.change(delete={"a": [(1,)], "b": [(1,)]})
        assert host.is_right() is not old_is_current


def test_what_left_a_negated_relation_may_be_back() -> None:
    """A row of p is deleted and inserted again; the rule ND of u sees it leave, and tests that it is not there."""
    made = production(normal(UNIONS))
    without = tuple(
        replace(rule, clause=replace(rule.clause, body=tuple(x for x in rule.clause.body if not isinstance(x, Not))))
        if rule.group is RulePurpose.NEGATED_DELETE
        else rule
        for rule in made.rules
    )
    for rules, right in ((made.rules, True), (without, False)):
        host = Host(normal(UNIONS), made=replace(made, rules=rules))
        host.change(insert={"a": [(1,)], "b": [(1,)], "c": [(1,)]})
        host.change(delete={"a": [(1,)]})
        assert host.is_right() is right


class KeepsWindows(RuleProcessor[Rows]):
    """The wrong reading: a window goes on from one processing point to the next."""

    _begun = False

    def _begin_point(self) -> None:
        if not self._begun:
            super()._begin_point()
        self._begun = True

    def next(self, among: Container[str] | None = None) -> rule_processor.Consideration[Rows] | None:
        since = dict(self._since)
        found = super().next(among)
        if found is None:
            self._since = since
        return found


def test_windows_end_with_the_processing_point() -> None:
    for processor in (RuleProcessor, KeepsWindows):
        host = Host(normal(JOIN), processor=processor)
        host.change(insert={"q": [(1, 2)], "r": [(2, 3)]})
        host.change(delete={"q": [(1, 2)]})
        assert host.is_right() is (processor is RuleProcessor)


def test_actions_that_change_nothing_trigger_nothing() -> None:
    ring = {"a": [(1,)], "e": [(1, 2), (2, 1)]}
    host = Host(normal(CHAIN))
    host.change(insert=ring)
    assert host.is_right()
    with pytest.raises(AssertionError, match="does not come to rest"):
        Host(normal(CHAIN), idle_actions=True).change(insert=ring)


# ---- user's rules -----------------------------------------------------------------------------


def answering(window: ChangeWindow[Rows]) -> list[tuple[str, str, list[Row]]]:
    """Whatever enters p leaves q."""
    return [("q", DELETED, [(x, y) for x, _ in window.of("p").inserted for y in range(9)])]


class NeverResets(RuleProcessor[Rows]):
    """The wrong reading: the windows of generated rules go on when a user's rule starts a new wave."""

    def next(self, among: Container[str] | None = None) -> rule_processor.Consideration[Rows] | None:
        found = self._first(self._generated) or self._first(self._others)
        if found is None:
            self._begin_point()
        return found


def test_a_users_rule_runs_between_waves_and_starts_a_new_one() -> None:
    rule = ScheduledRule("answer", (("p", INSERTED),))
    for processor in (RuleProcessor, NeverResets):
        host = Host(normal(JOIN), rules={rule: answering}, processor=processor)
        host.change(insert={"q": [(1, 2)], "r": [(2, 3)]})
        assert host.relations["q"] == set()
        assert host.is_right() is (processor is RuleProcessor)
    assert host.turns.index("answer") > max(place for place, name in enumerate(host.turns) if name == "p-ins-1")


def test_users_rules_keep_their_windows_while_views_are_brought_up_to_date() -> None:
    seen: list[Rows] = []

    def look(window: ChangeWindow[Rows]) -> list[tuple[str, str, list[Row]]]:
        seen.append(window.of("p").inserted)
        return [("b", INSERTED, [(5,)])] if len(seen) == 1 else []

    rule = ScheduledRule("look", (("p", INSERTED),))
    host = Host(normal(CHAIN), rules={rule: look})
    host.change(insert={"a": [(1,)], "e": [(1, 2)]})
    assert seen == [rows(1, 2), rows(5)]
    assert host.is_right()


# ---- on demand --------------------------------------------------------------------------------


def test_views_computed_on_demand_are_never_overfilled() -> None:
    for stratified, corrected in ((True, False), (False, True)):
        made = production(normal(UNIONS))
        first = tuple(
            replace(rule, stratum=0) if rule.group is RulePurpose.START and not stratified else rule
            for rule in made.rules
        )
        # As printed, all at once; the one above the negation first, which nothing forbids.
        ordered = first if stratified else tuple(sorted(first, key=lambda rule: (rule.rank, rule.view != "u")))
        host = Host(normal(UNIONS), made=replace(made, rules=ordered), on_demand=True)
        for name, held in {"a": rows(1), "b": rows(1, 2), "c": rows(1, 3)}.items():
            host.relations[name] |= held
        host.materialize()
        assert host.is_right()
        assert any(operation == DELETED and gone for _, operation, gone in host.written) is corrected
