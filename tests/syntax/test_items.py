"""Items: facts, rules, declarations and directives."""

from __future__ import annotations

import pytest

from upshot.core import types
from upshot.syntax import parse
from upshot.syntax.ast import (
    ActionClause,
    Activation,
    ActiveRule,
    And,
    Atom,
    Attribute,
    Constant,
    Declaration,
    Deny,
    DenyPolicy,
    Directive,
    EventClause,
    Ignored,
    Item,
    Rule,
    TypeDeclaration,
    TypeName,
    Variable,
    ViewDirective,
)

X, Y = Variable("X"), Variable("Y")
NUMBER, SYMBOL = TypeName("number"), TypeName("symbol")


def atom(name: str, *variables: Variable) -> Atom:
    return Atom(name, variables)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("r(1).", [Rule((Atom("r", (Constant(1),)),))]),
        ("r.", [Rule((Atom("r", ()),))]),
        ("r(1).q(1).", [Rule((Atom("r", (Constant(1),)),)), Rule((Atom("q", (Constant(1),)),))]),
        ("p(X), q(X) :- r(X).", [Rule((atom("p", X), atom("q", X)), atom("r", X))]),
        ("p(X):-r(X),q(X).", [Rule((atom("p", X),), And((atom("r", X), atom("q", X))))]),
        (".decl r()", [Declaration("r", ())]),
        (".decl r(a: number)", [Declaration("r", (Attribute("a", NUMBER),))]),
        (".decl r(a:number) r(1).", [Declaration("r", (Attribute("a", NUMBER),)), Rule((Atom("r", (Constant(1),)),))]),
        (
            ".decl a, b(x: symbol) inline",
            [Declaration(name, (Attribute("x", SYMBOL),), (), ("inline",)) for name in ("a", "b")],
        ),
        (
            ".decl r(a: number?, b: decimal(10,2), c: decimal(4, 0)?, d: City ?) key(a) key(b, c) btree no_magic",
            [
                Declaration(
                    "r",
                    (
                        Attribute("a", TypeName("number", nullable=True)),
                        Attribute("b", TypeName("decimal", (10, 2))),
                        Attribute("c", TypeName("decimal", (4, 0), nullable=True)),
                        Attribute("d", TypeName("City", nullable=True)),
                    ),
                    (("a",), ("b", "c")),
                    ("btree", "no_magic"),
                )
            ],
        ),
        (
            ".decl r(a: number) input output",
            [Declaration("r", (Attribute("a", NUMBER),)), Directive("input", "r"), Directive("output", "r")],
        ),
        (".type City <: symbol", [TypeDeclaration("City", (SYMBOL,))]),
        (".type City = symbol", [TypeDeclaration("City", (SYMBOL,), equivalent=True)]),
        (".type T = A | B", [TypeDeclaration("T", (TypeName("A"), TypeName("B")), equivalent=True)]),
        (".type City\n.number_type Age", [TypeDeclaration("City", (SYMBOL,)), TypeDeclaration("Age", (NUMBER,))]),
        (".input r", [Directive("input", "r")]),
        (
            '.output r, q(IO=file, filename="a b.csv", headers=true, n=3)',
            [
                Directive("output", name, (("IO", "file"), ("filename", "a b.csv"), ("headers", "true"), ("n", "3")))
                for name in ("r", "q")
            ],
        ),
        (".printsize r()", [Directive("printsize", "r")]),
        (
            ".view v strategy=rod materialized=false\nv(X) :- r(X).",
            [
                ViewDirective("v", (("strategy", "rod"), ("materialized", "false"))),
                Rule((atom("v", X),), atom("r", X)),
            ],
        ),
        (".activate r", [Activation("r")]),
        (".deactivate r()", [Activation("r", (), False)]),
        (
            '.activate r(X = "a", Y = -3)\n.deactivate r(X = 1.5)',
            [
                Activation("r", (("X", Constant("a", types.SYMBOL)), ("Y", Constant(-3)))),
                Activation("r", (("X", Constant(1.5, types.FLOAT)),), False),
            ],
        ),
        (".deny d(X) :- r(X, X).", [Deny(atom("d", X), atom("r", X, X))]),
        (".deny d :- r.", [Deny(atom("d"), atom("r"))]),
        (".deny d on_violation=warn", [DenyPolicy("d", (("on_violation", "warn"),))]),
        ('.pragma "a" "b"', [Ignored('.pragma "a" "b"')]),
        (
            "p(X) :- r(X). .plan 0:( 1 , 2 ),1:(2,1)",
            [Rule((atom("p", X),), atom("r", X)), Ignored(".plan 0:(1,2), 1:(2,1)")],
        ),
        ("", []),
        ("\ufeff// only a comment", []),
    ],
)
def test_an_item_is_read_as_written(text: str, expected: list[Item]) -> None:
    assert list(parse(text).items) == expected


def test_an_active_rule_has_parameters_options_event_condition_and_actions() -> None:
    text = """
    .rule reorder(X) priority=-10 follows=other note="a b"
       on change r(X, Y)
       when old r(X, Y), inserted q(X), deleted q(Y), r(X, X)
       do insert p(X), delete q(X), call tell(X).
    """
    (rule,) = parse(text).items
    assert rule == ActiveRule(
        "reorder",
        (X,),
        (("priority", "-10"), ("follows", "other"), ("note", "a b")),
        EventClause("change", atom("r", X, Y)),
        And((Atom("r", (X, Y), "old"), Atom("q", (X,), "inserted"), Atom("q", (Y,), "deleted"), atom("r", X, X))),
        (
            ActionClause("insert", atom("p", X)),
            ActionClause("delete", atom("q", X)),
            ActionClause("call", atom("tell", X)),
        ),
    )


def test_an_active_rule_needs_only_a_name_and_an_action() -> None:
    (rule,) = parse(".rule r2 do call tell.").items
    assert rule == ActiveRule("r2", (), actions=(ActionClause("call", atom("tell")),))


def test_relations_may_be_named_like_the_words_of_a_rule() -> None:
    (rule,) = parse(".rule r when old(X), old old(X), do, old do(X) do insert do(X).").items
    assert isinstance(rule, ActiveRule)
    assert rule.condition == And((atom("old", X), Atom("old", (X,), "old"), atom("do"), Atom("do", (X,), "old")))


def test_every_item_knows_its_place_in_the_text() -> None:
    text = ".decl r(a: number) key(a)\n  r(1). // one\n.view v strategy=rod\n.rule x do call f(1) ."
    assert [item.span.text for item in parse(text).items if item.span] == [
        ".decl r(a: number) key(a)",
        "r(1).",
        ".view v strategy=rod",
        ".rule x do call f(1) .",
    ]


def test_lines_and_columns_count_from_one() -> None:
    (rule,) = parse("\n\n   r(1).", "a.dl").items
    assert repr(rule.span) == "a.dl:3:4"


def test_a_souffle_program_reads_unchanged() -> None:
    text = """
    /* points-to analysis, as Soufflé users write it */
    .type var <: symbol
    .type obj <: symbol
    .decl assign( a:var, b:var ) btree
    .decl new( v:var, o:obj )
    .input assign, new(IO=file, delimiter="\\t")
    .decl alias( a:var, b:var ) brie   // tuning words are accepted
    .output alias
    alias(X,X) :- assign(X,_).
    alias(X,X) :- assign(_,X).
    alias(X,Y) :- assign(X,Y) ; (alias(X,Z), alias(Z,Y), X != Z).
      .plan 0:(3,1,2)
    .decl stats(n:number, longest:number)
    stats(n, m) :- n = count : { alias(_,_) }, m = max strlen(x) + 1 : { new(x,_), !match("tmp.*", x) }.
    .printsize stats
    .pragma "legacy"
    new("a","l1"). new("b", "l2").
    """
    kinds = [type(item).__name__ for item in parse(text).items]
    assert kinds.count("Rule") == 6
    assert kinds.count("Directive") == 4
    assert kinds.count("Ignored") == 2
