"""Components: what instances expand to, and what is refused."""

from __future__ import annotations

import pytest

from upshot.check import check
from upshot.core.errors import ProgramError
from upshot.syntax import parse, print_program


@pytest.mark.parametrize(
    ("text", "items"),
    [
        (".comp C { .decl a(x: number) a(1). }", []),
        (".comp C { .decl a(x: number) a(1). }\n.init c = C", [".decl c.a(x: number)", "c.a(1)."]),
        (
            ".comp C<T> { .type U <: T .decl a(x: T, y: U, z: V?) }\n.type V <: number\n.init c = C<symbol>",
            [".type V <: number", ".type c.U <: symbol", ".decl c.a(x: symbol, y: c.U, z: V?)"],
        ),
        (
            ".comp B { .decl a(x: number) overridable a(1). .decl b(x: number) b(1). }\n"
            ".comp C : B { .override a a(2). b(2). }\n.init c = C",
            [".decl c.a(x: number) overridable", ".decl c.b(x: number)", "c.b(1).", "c.a(2).", "c.b(2)."],
        ),
        (
            ".comp D { .decl a(x: number) }\n.comp C<K> { .init d = K d.a(1). a(X) :- d.a(X). }\n.init c = C<D>",
            [".decl c.d.a(x: number)", "c.d.a(1).", "a(X) :- c.d.a(X)."],
        ),
        (
            ".comp C { .comp D { .decl a(x: number) a(X) :- b(X). } .decl b(x: number) .init d = D }\n.init c = C",
            [".decl c.b(x: number)", ".decl c.d.a(x: number)", "c.d.a(X) :- c.b(X)."],
        ),
        (
            ".comp C { .decl a(x: number) .output a .deny n(X) :- a(X), X < 0. .deny n on_violation=warn .view a "
            "strategy=rod .decl b(x: number) foreign(x) a(x) }\n.init c = C",
            [".decl c.a(x: number)", ".output c.a", ".deny c.n(X) :- c.a(X), X < 0.", ".deny c.n on_violation=warn",
             ".view c.a strategy=rod", ".decl c.b(x: number) foreign(x) c.a(x)"],
        ),
        ("a :- b.c.\na :- X = Y.b(1).", ["a() :- b.c().", "a() :- X = Y.", "b(1)."]),
    ],
)  # fmt: skip
def test_instances_expand_to_these_items(text: str, items: list[str]) -> None:
    program = parse(text)
    printed = print_program(program)
    assert printed.splitlines() == items
    assert parse(printed) == program


@pytest.mark.parametrize(
    ("text", "slugs"),
    [
        (".init c = C", ["unknown-component"]),
        (".comp C<T> { }\n.init c = C\n.init d = C<a, b>", ["component-arguments"] * 2),
        (".comp C { }\n.comp C { }", ["duplicate-component"]),
        (".comp C : D { }\n.init c = C", ["unknown-component"]),
        (".comp C : D { }\n.comp D : C { }\n.init c = C", ["endless-component"]),
        (".comp C { .init c = C }\n.init c = C", ["endless-component"]),
        (".comp B { .decl a(x: number) }\n.comp C : B { .override a .override b }\n.init c = C", ["bad-override"] * 2),
        (".override a", ["misplaced-override"]),
        (".comp C\n.decl a(x number)", ["unexpected-token"] * 2),
        (".comp C { a(1) :- . }\n.init c = C", ["unexpected-token"]),
        (".comp C { a(1).", ["unexpected-end"]),
        ("}", ["unexpected-token"]),
        (".init c C", ["unexpected-token"]),
    ],
)
def test_a_wrong_component_is_refused(text: str, slugs: list[str]) -> None:
    with pytest.raises(ProgramError) as caught:
        parse(text)
    assert [each.slug for each in caught.value.diagnostics] == slugs


def test_a_mistake_inside_a_component_names_the_instance() -> None:
    with pytest.raises(ProgramError) as caught:
        check(parse(".comp C<T> {\n  .decl a(x: T)\n  a(X) :- b(X).\n}\n.init one = C<number>\n.init two = C<symbol>"))
    assert str(caught.value).splitlines()[:7] == [
        "error[unknown-relation]: unknown relation `b`",
        " --> <text>:3:11",
        "  |",
        "3 |   a(X) :- b(X).",
        "  |           ^^^^ unknown",
        "  = note: in instance `one` of component `C`",
        "  = help: declare it: `.decl b(…)`",
    ]
