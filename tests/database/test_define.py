from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.database.conftest import PATHS
from upshot.check.clause.clauses import ClauseMaker, Inferred
from upshot.syntax.ast import Atom


def insert(db: upshot.Database, name: str, rows: list[tuple[object, ...]]) -> upshot.Transaction:
    with db.transaction() as tx:
        tx.insert(name, rows)
    return tx


@pytest.fixture
def loaded(paths: upshot.Database) -> upshot.Database:
    insert(paths, "edge", [(1, 2), (2, 3)])
    return paths


def test_a_definition_loads_views_over_rows_that_are_there(loaded: upshot.Database) -> None:
    made = loaded.define(".decl far(x: number, y: number)  far(X, Y) :- path(X, Y), !edge(X, Y).")
    assert made.changes["far"].inserted == {(1, 3)}
    assert made.kept == ("path",)
    assert made.recomputed == ("far",)
    assert made.version == loaded.version
    assert insert(loaded, "edge", [(3, 4)]).changes["far"].inserted == {(1, 4), (2, 4)}
    loaded.verify()


def test_defining_the_same_text_again_keeps_everything(loaded: upshot.Database) -> None:
    version = loaded.version
    made = loaded.define(PATHS)
    assert made.kept == ("path",)
    assert made.recomputed == ()
    assert len(made.changes) == 0
    assert made.version == version
    assert loaded.rows("path") == {(1, 2), (2, 3), (1, 3)}


def test_a_redefined_view_reports_its_exact_difference_and_so_do_views_above(loaded: upshot.Database) -> None:
    loaded.define(".decl far(x: number, y: number)  far(X, Y) :- path(X, Y), !edge(X, Y).")
    loaded.define(".decl unrelated(x: number)  unrelated(X) :- edge(X, _).")
    made = loaded.define("path(X, Y) :- edge(X, Y).  path(X, Y) :- edge(Y, X).")
    assert made.changes["path"].inserted == {(2, 1), (3, 2)}
    assert made.changes["path"].deleted == {(1, 3)}
    assert made.changes["far"].inserted == {(2, 1), (3, 2)}
    assert made.changes["far"].deleted == {(1, 3)}
    assert made.kept == ("unrelated",)
    assert set(made.recomputed) == {"path", "far"}
    loaded.verify()
    tx = insert(loaded, "edge", [(3, 4)])
    assert tx.changes["far"].inserted == {(4, 3)}


def test_views_can_turn_recursive_and_back(loaded: upshot.Database) -> None:
    plain = "path(X, Y) :- edge(X, Y)."
    assert loaded.define(plain).changes["path"].deleted == {(1, 3)}
    assert loaded.define(PATHS).changes["path"].inserted == {(1, 3)}
    loaded.verify()


def test_a_changed_strategy_recomputes_without_any_change(loaded: upshot.Database) -> None:
    made = loaded.define(".view path strategy=recompute")
    assert len(made.changes) == 0
    assert made.recomputed == ("path",)
    insert(loaded, "edge", [(3, 4)])
    loaded.verify()


def test_a_failing_definition_leaves_everything_as_before(loaded: upshot.Database) -> None:
    version = loaded.version
    for text in (
        "path(X, Y) :- edg(X, Y).",
        ".decl edge(",
        ".decl q(x: number)  q(Z) :- edge(X, Y), Z = X / (Y - Y).",
        ".decl path(x: symbol)  path(X) :- edge(X, _).",
    ):
        with pytest.raises(upshot.Error):
            loaded.define(text)
        assert loaded.version == version
        assert set(loaded.schemas) == {"edge", "path"}
        assert loaded.rows("path") == {(1, 2), (2, 3), (1, 3)}
    assert insert(loaded, "edge", [(3, 4)]).changes["path"].inserted == {(3, 4), (2, 4), (1, 4)}
    loaded.verify()


def test_errors_point_into_the_text_they_come_from(paths: upshot.Database) -> None:
    with pytest.raises(upshot.ProgramError) as error:
        paths.define("\n\npath(X, Y) :- edgee(X, Y).", name="second.dl")
    assert "second.dl:3:15" in str(error.value)
    assert "did you mean `edge`" in str(error.value)
    with pytest.raises(upshot.ProgramError) as error:
        paths.define(".decl edge(x: symbol, y: symbol)")
    assert "<text>" in str(error.value)


def test_a_view_gets_other_columns(loaded: upshot.Database) -> None:
    made = loaded.define(".decl path(x: number)  path(X) :- edge(X, _).")
    assert made.changes["path"].inserted == {(1,), (2,)}
    assert loaded.rows("path") == {(1,), (2,)}
    loaded.verify()


def test_a_base_relation_with_rows_keeps_its_columns(loaded: upshot.Database) -> None:
    loaded.define("path(X, Y) :- edge(X, Y).")
    with pytest.raises(upshot.DataError) as error:
        loaded.define(".decl edge(x: number, y: number, z: number)  path(X, Y) :- edge(X, Y, _).")
    assert error.value.code == "schema-change"
    assert "edge(x: number, y: number) becomes edge(x: number, y: number, z: number)" in error.value.message
    with loaded.transaction() as tx:
        tx.replace("edge", [])
    loaded.define(".decl edge(x: number, y: number, z: number)  path(X, Y) :- edge(X, Y, _).")
    assert insert(loaded, "edge", [(1, 2, 3)]).changes["path"].inserted == {(1, 2)}


def test_a_base_relation_with_rows_does_not_become_a_view(loaded: upshot.Database) -> None:
    with pytest.raises(upshot.DataError) as error:
        loaded.define(".decl raw(x: number, y: number)  edge(X, Y) :- raw(X, Y).")
    assert error.value.code == "schema-change"
    assert ".input edge" in error.value.help
    made = loaded.define(".decl raw(x: number, y: number)  .input edge  edge(X, Y) :- raw(X, Y).")
    assert len(made.changes) == 0
    assert insert(loaded, "raw", [(3, 4)]).changes["path"].inserted == {(3, 4), (2, 4), (1, 4)}
    loaded.verify()


def test_a_view_becomes_a_base_relation_with_the_facts_of_the_text(loaded: upshot.Database) -> None:
    made = loaded.define(".decl path(x: number, y: number)  path(1, 2).  path(7, 8).")
    assert made.changes["path"].inserted == {(7, 8)}
    assert made.changes["path"].deleted == {(2, 3), (1, 3)}
    assert insert(loaded, "path", [(9, 9)]).changes["path"].inserted == {(9, 9)}
    loaded.verify()


def test_a_view_with_given_facts_becomes_a_base_relation_that_holds_them(db: upshot.Database) -> None:
    db.define(".decl e(x: number)  .decl v(x: number)  .input v  v(X) :- e(X).")
    insert(db, "e", [(1,)])
    insert(db, "v", [(2,)])
    made = db.define(".decl v(x: number)")
    assert made.changes["v"].deleted == {(1,)}
    assert db.rows("v") == {(2,)}
    made = db.define("v(X) :- e(X).  .input v")
    assert made.changes["v"].inserted == {(1,)}
    with pytest.raises(upshot.DataError) as error:
        db.define(".decl v(x: number)  v(X) :- e(X).")
    assert error.value.code == "schema-change"
    db.verify()


def test_facts_of_the_text_come_and_go_with_the_text(db: upshot.Database) -> None:
    text = ".decl e(x: number)  .decl v(x: number)  v(X) :- e(X), X > 1."
    made = db.define(text + "e(1).  e(2).")
    assert made.changes["v"].inserted == {(2,)}
    insert(db, "e", [(10,)])
    made = db.define(text + "e(2).  e(3).")
    assert made.changes["e"].inserted == {(3,)}
    assert made.changes["e"].deleted == {(1,)}
    assert made.kept == ("v",)
    assert db.rows("v") == {(2,), (3,), (10,)}
    made = db.define("e(4).")
    assert db.rows("e") == {(4,), (10,)}
    assert db.define(".decl e(x: number)").changes["v"].deleted == {(4,)}


def test_a_fact_of_the_text_that_a_transaction_deleted_stays_deleted(db: upshot.Database) -> None:
    text = ".decl e(x: number)  e(1).  e(2)."
    db.define(text)
    with db.transaction() as tx:
        tx.delete("e", [(1,)])
    db.define(text)
    assert db.rows("e") == {(2,)}


def test_renaming_columns_of_a_relation_with_text_facts_only(db: upshot.Database) -> None:
    db.define(".decl e(x: number)  e(1).  e(2).")
    db.define(".decl e(z: number)  e(2).  e(3).")
    assert db.rows("e") == {(2,), (3,)}
    assert db.schemas["e"].columns[0].name == "z"


def test_rules_with_two_heads_are_replaced_head_by_head(db: upshot.Database) -> None:
    db.define(".decl e(x: number)  .decl a(x: number)  .decl b(x: number)  a(X), b(X) :- e(X).  e(1).  e(5).")
    made = db.define("a(X) :- e(X), X > 3.")
    assert made.changes["a"].deleted == {(1,)}
    assert made.kept == ("b",)
    assert db.rows("b") == {(1,), (5,)}


def test_generated_views_of_two_texts_do_not_mix(db: upshot.Database) -> None:
    db.define(
        ".decl r(x: number, y: number)  .decl n(x: number, c: number)  n(X, C) :- r(X, _), C = count : { r(X, _) }."
    )
    insert(db, "r", [(1, 2), (1, 3), (2, 5)])
    db.define(
        ".decl s(x: number, c: number)  s(X, C) :- r(X, _), C = sum Y : { r(X, Y) }.  .decl lone(x: number)"
        "lone(X) :- r(X, _), !r(_, X)."
    )
    assert db.rows("n") == {(1, 2), (2, 1)}
    assert db.rows("s") == {(1, 5), (2, 5)}
    db.define("n(X, C) :- r(X, _), C = max Y : { r(X, Y) }.")
    assert db.rows("n") == {(1, 3), (2, 5)}
    db.verify()
    insert(db, "r", [(2, 1)])
    assert db.rows("s") == {(1, 5), (2, 6)}
    db.verify()


def test_a_subtype_can_be_redefined(db: upshot.Database) -> None:
    db.define(".type Name <: symbol  .decl e(x: Name)")
    insert(db, "e", [("a",)])
    db.define(".type Other <: symbol  .decl f(x: Other)  .input f")
    assert db.rows("e") == {("a",)}
    assert [directive.relation for directive in db.directives] == ["f"]


def test_a_definition_checks_only_the_rules_that_are_new(db: upshot.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    views = (f".decl v{i}(x: number)\nv{i}(X) :- e(X, Y), Y > {i}.\n" for i in range(50))
    db.define(".decl e(x: number, y: number)\n" + "".join(views))
    checked: list[str] = []
    rule = ClauseMaker.rule

    def counted(self: ClauseMaker, heads: tuple[Atom, ...], *args: Any, **options: Any) -> list[Inferred]:
        checked.extend(head.relation for head in heads)
        return rule(self, heads, *args, **options)

    monkeypatch.setattr(ClauseMaker, "rule", counted)
    db.define(".decl w(x: number)\nw(X) :- v3(X).\nw(X) :- e(_, X).")
    assert checked == ["w", "w"]
    checked.clear()
    db.define(".decl v3(x: number, y: number)\nv3(X, Y) :- e(X, Y).\n.decl w(x: number)\nw(X) :- v3(X, _).")
    assert checked == ["v3", "w"]
    insert(db, "e", [(1, 20)])
    assert db.rows("w") == {(1,)}
    db.verify()


def test_a_rule_is_checked_again_when_a_relation_that_it_names_gets_other_columns(db: upshot.Database) -> None:
    db.define(".decl e(x: number)\n.decl v(x: number)\nv(X) :- e(Y), X = Y + 1.\n.decl w(x: number)\nw(X) :- v(X).")
    with pytest.raises(upshot.ProgramError) as error:
        db.define(".decl e(x: symbol)")
    assert {each.span.line for each in error.value.diagnostics if each.span is not None}
    with pytest.raises(upshot.ProgramError, match="columns"):
        db.define(".decl v(x: number, y: number)\nv(X, X) :- e(X).")
    db.define(".decl e(x: number?)")
    insert(db, "e", [(1,), (None,)])
    assert db.rows("w") == {(2,)}


def test_rules_are_checked_again_under_other_types(db: upshot.Database) -> None:
    db.define(".type Shape = Circle { r: number } | Point {}\n.decl s(x: Shape)\n.decl v(r: number)")
    db.define("v(R) :- s($Circle(R)).")
    with pytest.raises(upshot.ProgramError):
        db.define(".type Shape = Square { a: number } | Point {}")
    with pytest.raises(upshot.ProgramError):
        db.define(".type Shape = Circle { r: symbol } | Point {}")


def test_a_rule_with_a_warning_warns_in_later_definitions_too(db: upshot.Database) -> None:
    db.define(".decl e(x: number, y: number)\n.decl v(x: number)\nv(X) :- e(X, Y).")
    made = db.define(".decl w(x: number)\nw(X) :- e(X, _).")
    again = db.define(".decl u(x: number)\nu(X) :- e(X, _).")
    assert [each.slug for each in made.warnings] == [each.slug for each in again.warnings]


def test_dropping_a_view(loaded: upshot.Database) -> None:
    loaded.define(".decl far(x: number, y: number)  far(X, Y) :- path(X, Y), !edge(X, Y).  .output far")
    with pytest.raises(upshot.UsageError) as error:
        loaded.drop("path")
    assert error.value.code == "relation-in-use"
    assert "`far`" in error.value.message
    assert loaded.drop("far").kept == ("path",)
    loaded.drop("path")
    assert set(loaded.schemas) == {"edge"}
    with pytest.raises(upshot.UsageError) as error:
        loaded.drop("edge")
    assert error.value.code == "relation-not-empty"
    with loaded.transaction() as tx:
        tx.replace("edge", [])
    loaded.drop("edge")
    assert len(loaded.schemas) == 0
    loaded.define(PATHS)
    assert loaded.rows("edge") == set()


def test_a_watched_view_is_not_dropped(paths: upshot.Database) -> None:
    subscription = paths.watch("path", lambda event: None)
    with pytest.raises(upshot.UsageError) as error:
        paths.drop("path")
    assert error.value.code == "relation-in-use"
    subscription.close()
    paths.drop("path")


def test_programs_are_read_from_files(db: upshot.Database, tmp_path: Path) -> None:
    file = tmp_path / "paths.dl"
    file.write_bytes(b"\xef\xbb\xbf" + PATHS.replace("\n", "\r\n").encode())
    db.define(file)
    db.define(str(file))
    assert set(db.schemas) == {"edge", "path"}
    (tmp_path / "broken.dl").write_text("path(X) :- edge(X, _).")
    with pytest.raises(upshot.ProgramError, match=r"broken\.dl:1"):
        db.define(tmp_path / "broken.dl")


@pytest.mark.parametrize("name", ["missing.dl", "no such folder/missing.dl", "missing.sql"])
def test_a_string_that_names_no_file_is_called_a_missing_file(
    db: upshot.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for given in (name, Path(name)):
        with pytest.raises(upshot.UsageError, match=r"file `.*missing.*` does not exist") as error:
            db.define(given)
        assert error.value.code == "no-such-file"


def test_a_program_of_one_line_may_end_in_a_comment_on_a_file(db: upshot.Database) -> None:
    db.define(".decl a(x: number)  // as in other.dl")
    assert set(db.schemas) == {"a"}


def test_files_that_cannot_be_read_are_named(db: upshot.Database, tmp_path: Path) -> None:
    (tmp_path / "there.dl").write_text(PATHS)
    with pytest.raises(upshot.UsageError) as error:
        db.define(tmp_path / "missing.dl")
    assert error.value.code == "no-such-file"
    assert "`there.dl`" in error.value.help
    with pytest.raises(upshot.UsageError) as error:
        db.define(tmp_path)
    assert error.value.code == "no-such-file"
    (tmp_path / "latin.dl").write_bytes(b"// \xe4\n")
    with pytest.raises(upshot.UsageError) as error:
        db.define(tmp_path / "latin.dl")
    assert error.value.code == "not-utf8"
    (tmp_path / "views.sql").write_text("select 1")
    with pytest.raises(upshot.ProgramError) as wrong:
        db.define(str(tmp_path / "views.sql"))
    assert wrong.value.code == "sql-query-in-program"
    with pytest.raises(upshot.UsageError) as error:
        db.define(7)  # type: ignore[arg-type]
    assert error.value.code == "wrong-argument"
