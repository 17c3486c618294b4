"""A program as a script for PostgreSQL: tables, and triggers that keep its views current.

Statement triggers fold the changes of base tables into their net change. At the end of the transaction, or when
`process()` is called, each component of views runs its production rules: deletions to a fixpoint, rederivation,
insertions to a fixpoint. Its net change drives the components above. [Ceri & Widom 1994]
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from upshot.check.program import CheckedProgram
from upshot.core.errors import ProgramError
from upshot.core.schema import Role, Schema
from upshot.export.postgres_rules import TableNames, rule_query
from upshot.export.postgres_terms import (
    ExportFindings,
    column_definitions,
    column_names,
    quoted,
    text_literal,
    value_text,
)
from upshot.rewrite import normal_form
from upshot.rewrite.shapes import atoms_of
from upshot.strategies.production import print_production_rule
from upshot.strategies.production_rules import ProductionRule, RulePurpose, production

_LONGEST_NAME = 50
"""The longest name of a relation: PostgreSQL truncates names to 63 bytes, and the names of its tables have suffixes."""
_DELETIONS = (RulePurpose.NEGATED_INSERT, RulePurpose.DELETE)
_INSERTIONS = (RulePurpose.NEGATED_DELETE, RulePurpose.INSERT)


def postgres_script(program: CheckedProgram, schema: str = "upshot") -> str:
    """The script of a program; `ProgramError` with all features for which PostgreSQL would give other results."""
    findings = ExportFindings()
    _refuse_features(program, findings)
    if findings.found:
        raise ProgramError(findings.found)
    script = _PostgresScript(normal_form(program), program, schema, findings)
    text = script.text()
    if findings.found:
        raise ProgramError(findings.found)
    return text


def _refuse_features(program: CheckedProgram, findings: ExportFindings) -> None:
    for rule in program.rules:
        findings.refuse(f"active rule `{rule.name}`", rule.span, "write it as a trigger on the table of changes")
    for name in sorted(program.functors):
        findings.refuse(f"function `{name}`", None, "use built-in functions")
    for name in sorted(program.undecided):
        findings.refuse(f"`{name}`, which has alternatives,", program.schemas[name].span, "use one head for each rule")
    for schema in program.schemas.values():
        if schema.lattice is not None:
            findings.refuse(
                f"`{schema.name}`, which keeps best values,", schema.span, "declare it without `min` or `max`"
            )
        if len(schema.name.encode()) > _LONGEST_NAME:
            findings.refuse(f"name `{schema.name}`", schema.span, f"use at most {_LONGEST_NAME} characters")


@dataclass(slots=True)
class _PostgresScript:
    """The script of a program in normal form; `source` is the checked program."""

    program: CheckedProgram
    source: CheckedProgram
    schema: str
    findings: ExportFindings

    @property
    def tables(self) -> TableNames:
        return TableNames(self.program.schemas, self.schema, f"{self.schema}_internal")

    def function(self, name: str) -> str:
        return f"{quoted(self.tables.internal)}.{quoted(name)}"

    def changes(self, relation: str) -> str:
        return f"{quoted(f'{self.schema}_changes')}.{quoted(relation)}"

    def text(self) -> str:
        base = [each for each in self.program.schemas.values() if each.role is Role.BASE]
        parts = [self._heading(), *map(self._relation, self.program.schemas.values()), *self._facts()]
        rules = production(self.program).rules
        names = []
        for number, component in enumerate(self.program.strata, start=1):
            own = [rule for rule in rules if rule.view in component]
            names.append(f"maintain_{number}")
            parts.append(self._maintenance(names[-1], component, own))
            parts.append(self._start(component, own))
        parts += [self._processing(names), *map(self._capture, base), "COMMIT;"]
        return "\n\n".join(parts) + "\n"

    # ---- tables -------------------------------------------------------------------------------------

    def _heading(self) -> str:
        internal, changes = quoted(self.tables.internal), quoted(f"{self.schema}_changes")
        return f"""-- Written by `upshot export postgres`. Needs PostgreSQL 15 or later.
BEGIN;
CREATE SCHEMA {quoted(self.schema)};
CREATE SCHEMA {changes};
CREATE SCHEMA {internal};
CREATE TABLE {internal}.pending (once boolean PRIMARY KEY);
CREATE TABLE {internal}.version (number bigint NOT NULL);
INSERT INTO {internal}.version VALUES (0);"""

    def _relation(self, schema: Schema) -> str:
        """The table of a relation, those of its changes, and the log of its changes unless it is hidden."""
        tables, columns = self.tables, column_names(schema)
        definitions = column_definitions(schema, self.findings)
        unique = [f"UNIQUE NULLS NOT DISTINCT ({', '.join(columns)})"]
        keys = [f"UNIQUE NULLS NOT DISTINCT ({', '.join(columns[place] for place in key)})" for key in schema.keys]
        rows = tables.rows(schema.name)
        lines = [f"-- {schema}", f"CREATE TABLE {rows} ({', '.join([*definitions, *unique, *keys])});"]
        lines += [f"CREATE INDEX ON {rows} ({column});" for column in columns[1:]]
        parts = ("ins", "del") if schema.role is Role.BASE else ("ins", "del", "next", "wave")
        lines += [f"CREATE UNLOGGED TABLE {tables.part(schema.name, part)} (LIKE {rows});" for part in parts]
        if self._is_shown(schema.name):
            log = f"_version bigint NOT NULL, _change smallint NOT NULL, LIKE {rows}"
            lines.append(f"CREATE TABLE {self.changes(schema.name)} ({log});")
        if schema.role is not Role.BASE:
            lines.append(self._guard(schema.name))
        return "\n".join(lines)

    def _guard(self, view: str) -> str:
        """The trigger that rejects direct changes of a view."""
        message = text_literal(f"{view} is a view: change its base tables")
        is_processing = "coalesce(current_setting('upshot.processing', true), '') = 'on'"
        body = f"IF NOT {is_processing} THEN RAISE EXCEPTION {message}; END IF;"
        function = self._body(f"{view}__guard", "trigger", f"  {body}\n  RETURN NULL;")
        events = "INSERT OR UPDATE OR DELETE OR TRUNCATE"
        return (
            f"{function}\nCREATE TRIGGER upshot_guard BEFORE {events} ON {self.tables.rows(view)}"
            f" FOR EACH STATEMENT EXECUTE FUNCTION {self.function(f'{view}__guard')}();"
        )

    def _is_shown(self, relation: str) -> bool:
        return relation in self.source.schemas and relation not in self.source.hidden | set(self.source.parts)

    def _facts(self) -> Iterator[str]:
        for name, rows in self.program.facts.items():
            types = self.program.schemas[name].types
            for row in rows:
                values = ", ".join(value_text(value, type) for value, type in zip(row, types, strict=True)) or "TRUE"
                yield f"INSERT INTO {self.tables.rows(name)} VALUES ({values}) ON CONFLICT DO NOTHING;"

    # ---- changes of base tables ---------------------------------------------------------------------

    def _capture(self, schema: Schema) -> str:
        """The triggers that fold the statements on a base table into its net change."""
        name, rows = schema.name, self.tables.rows(schema.name)
        columns = self.tables.columns(name)
        old, new = f"SELECT {columns} FROM gone", f"SELECT {columns} FROM come"
        steps = {
            "insert": ("INSERT", "NEW TABLE AS come", [self._fold(name, new, "ins", "del")]),
            "delete": ("DELETE", "OLD TABLE AS gone", [self._fold(name, old, "del", "ins")]),
            "update": (
                "UPDATE",
                "OLD TABLE AS gone NEW TABLE AS come",
                [
                    self._fold(name, f"{old} EXCEPT {new}", "del", "ins"),
                    self._fold(name, f"{new} EXCEPT {old}", "ins", "del"),
                ],
            ),
        }
        found = []
        for step, (event, tables, folds) in steps.items():
            body = "\n".join([f"  PERFORM {self.function('begin')}();", *folds, "  RETURN NULL;"])
            found.append(self._body(f"{name}__{step}", "trigger", body))
            found.append(
                f"CREATE TRIGGER upshot_{step} AFTER {event} ON {rows} REFERENCING {tables}"
                f" FOR EACH STATEMENT EXECUTE FUNCTION {self.function(f'{name}__{step}')}();"
            )
        everything = self._fold(name, f"SELECT {columns} FROM {rows}", "del", "ins")
        body = "\n".join([f"  PERFORM {self.function('begin')}();", everything, "  RETURN NULL;"])
        found.append(self._body(f"{name}__truncate", "trigger", body))
        found.append(
            f"CREATE TRIGGER upshot_truncate BEFORE TRUNCATE ON {rows}"
            f" FOR EACH STATEMENT EXECUTE FUNCTION {self.function(f'{name}__truncate')}();"
        )
        return "\n".join(found)

    def _fold(self, relation: str, rows: str, into: str, against: str) -> str:
        """Fold changed rows into the net change: an insert and a delete of the same row cancel out."""
        tables = self.tables
        target, other, columns = tables.part(relation, into), tables.part(relation, against), tables.columns(relation)
        return (
            f"  WITH changed AS ({rows}),"
            f" back AS (DELETE FROM {other} o USING changed c WHERE {tables.same(relation, 'o', 'c')}"
            f" RETURNING {tables.columns(relation, 'o')})\n"
            f"  INSERT INTO {target} SELECT {columns} FROM changed c"
            f" WHERE NOT EXISTS (SELECT 1 FROM back b WHERE {tables.same(relation, 'b', 'c')});"
        )

    # ---- components ---------------------------------------------------------------------------------

    def _maintenance(self, name: str, component: Sequence[str], rules: Sequence[ProductionRule]) -> str:
        """The function that runs the rules of a component, group by group."""
        below = {
            atom.relation
            for clause in self.program.clauses
            if clause.head.relation in component
            for _, atom, _ in atoms_of(clause)
            if atom.relation not in component
        }
        changed = [self._has_rows(r, part) for r in sorted(below) for part in ("ins", "del")]
        lines = [f"  IF NOT ({' OR '.join(changed) or 'FALSE'}) THEN RETURN; END IF;"]
        lines += ["  -- deletions", *self._fixpoint(component, rules, _DELETIONS, self._take_deletions)]
        for view in component:
            rows, deleted = self.tables.rows(view), self.tables.part(view, "del")
            lines.append(f"  DELETE FROM {rows} r USING {deleted} d WHERE {self.tables.same(view, 'r', 'd')};")
        lines.append("  -- rederivation and insertions")
        lines += self._run(component, [rule for rule in rules if rule.group is RulePurpose.REINSERT])
        lines += self._fixpoint(component, rules, _INSERTIONS, self._take_insertions)
        lines += map(self._net, component)
        return self._body(name, "void", "\n".join(lines))

    def _start(self, component: Sequence[str], rules: Sequence[ProductionRule]) -> str:
        """The statements that compute a component from the current rows."""
        lines = ["  PERFORM set_config('upshot.processing', 'on', true);"]
        lines += self._run(component, [rule for rule in rules if rule.group is RulePurpose.START])
        lines += self._fixpoint(component, rules, (), self._take_insertions, (RulePurpose.INSERT,))
        lines += [f"  DELETE FROM {self.tables.part(view, 'ins')};" for view in component]
        lines.append("  PERFORM set_config('upshot.processing', 'off', true);")
        return f"DO {_dollars(chr(10).join(lines))};"

    def _fixpoint(
        self,
        component: Sequence[str],
        rules: Sequence[ProductionRule],
        groups: Sequence[RulePurpose],
        take: Callable[[str], list[str]],
        again: Sequence[RulePurpose] | None = None,
    ) -> list[str]:
        """The rules that lower relations drive, once; then those that the component itself drives, to a fixpoint."""
        chosen = [rule for rule in rules if rule.group in (groups if again is None else again)]
        inner = [rule for rule in chosen if rule.trigger[0] in component]
        lines = self._run(component, [rule for rule in chosen if rule.group in groups and rule not in inner])
        next_wave = [line for view in component for line in take(view)]
        if not inner:
            return [*lines, *next_wave]
        waves = " OR ".join(self._has_rows(view, "wave") for view in component)
        loop = [*next_wave, f"  EXIT WHEN NOT ({waves});", *self._run(component, inner)]
        return [*lines, "  LOOP", *(f"  {line}" for line in loop), "  END LOOP;"]

    def _run(self, component: Sequence[str], rules: Sequence[ProductionRule]) -> list[str]:
        lines = []
        for rule in rules:
            lines.append(f"  -- {' '.join(print_production_rule(rule).split())}")
            query = rule_query(rule, component, self.tables, self.findings)
            lines.append(f"  INSERT INTO {self.tables.part(rule.view, 'next')} {query};")
        return lines

    def _take_deletions(self, view: str) -> list[str]:
        """The next wave: the rows to delete that exist and were not deleted yet."""
        return self._take(view, "", "NOT ", "del")

    def _take_insertions(self, view: str) -> list[str]:
        """The next wave: the rows to insert that do not exist."""
        wave = self.tables.part(view, "wave")
        return [*self._take(view, "NOT ", None, "ins"), f"  INSERT INTO {self.tables.rows(view)} SELECT * FROM {wave};"]

    def _take(self, view: str, exists: str, is_new: str | None, into: str) -> list[str]:
        tables = self.tables
        following, wave, target = (tables.part(view, part) for part in ("next", "wave", into))
        same = f"WHERE {tables.same(view, 'r', 'n')}"
        condition = f"{exists}EXISTS (SELECT 1 FROM {tables.rows(view)} r {same})"
        if is_new is not None:
            condition += f" AND {is_new}EXISTS (SELECT 1 FROM {target} r {same})"
        return [
            f"  DELETE FROM {wave};",
            f"  INSERT INTO {wave} SELECT DISTINCT {tables.columns(view, 'n')} FROM {following} n WHERE {condition};",
            f"  DELETE FROM {following};",
            f"  INSERT INTO {target} SELECT * FROM {wave};",
        ]

    def _net(self, view: str) -> str:
        """Remove rows from the change that were deleted and inserted again."""
        tables = self.tables
        inserted, deleted = tables.part(view, "ins"), tables.part(view, "del")
        return (
            f"  WITH again AS (DELETE FROM {inserted} i USING {deleted} d WHERE {tables.same(view, 'i', 'd')}"
            f" RETURNING {tables.columns(view, 'i')})\n"
            f"  DELETE FROM {deleted} d USING again a WHERE {tables.same(view, 'd', 'a')};"
        )

    def _has_rows(self, relation: str, part: str) -> str:
        return f"EXISTS (SELECT 1 FROM {self.tables.part(relation, part)})"

    # ---- processing points --------------------------------------------------------------------------

    def _processing(self, components: Sequence[str]) -> str:
        internal = quoted(self.tables.internal)
        lock = int.from_bytes(hashlib.sha256(self.schema.encode()).digest()[:7])
        begin = f"""  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'isolation level % is not supported: use READ COMMITTED', current_setting('transaction_isolation');
  END IF;
  PERFORM pg_advisory_xact_lock({lock});
  INSERT INTO {internal}.pending VALUES (TRUE) ON CONFLICT DO NOTHING;"""
        steps = [f"  PERFORM {self.function(name)}();" for name in components]
        process = f"""  IF NOT EXISTS (SELECT 1 FROM {internal}.pending) THEN RETURN; END IF;
  PERFORM set_config('upshot.processing', 'on', true);
{chr(10).join([*steps, *self._checks(), *self._log(), *self._clear()])}
  DELETE FROM {internal}.pending;
  PERFORM set_config('upshot.processing', 'off', true);"""
        visible = f"{quoted(self.schema)}.process()"
        return "\n".join(
            [
                self._body("begin", "void", begin),
                "-- Updates all views. A transaction calls it at its end.",
                _function(visible, "void", process),
                self._body("at_commit", "trigger", f"  PERFORM {visible};\n  RETURN NULL;"),
                f"CREATE CONSTRAINT TRIGGER upshot_at_commit AFTER INSERT ON {internal}.pending"
                f" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {self.function('at_commit')}();",
            ]
        )

    def _checks(self) -> Iterator[str]:
        for constraint in self.source.constraints.values():
            level = "EXCEPTION" if constraint.on_violation == "reject" else "WARNING"
            message = text_literal(f"constraint {constraint.name} is violated")
            found = self._has_rows(constraint.name, "ins")
            yield f"  IF {found} THEN RAISE {level} {message} USING ERRCODE = 'integrity_constraint_violation'; END IF;"

    def _log(self) -> Iterator[str]:
        """Log the net changes of a processing point, under its number."""
        shown = [name for name in self.program.schemas if self._is_shown(name)]
        changed = " OR ".join(self._has_rows(name, part) for name in shown for part in ("ins", "del"))
        if not shown:
            return
        number = f"{quoted(self.tables.internal)}.version"
        yield f"  IF {changed} THEN UPDATE {number} SET number = number + 1; END IF;"
        for name in shown:
            for part, sign in (("ins", 1), ("del", -1)):
                row = f"v.number, {sign}, {self.tables.columns(name, 'p')}"
                source = f"{number} v, {self.tables.part(name, part)} p"
                yield f"  INSERT INTO {self.changes(name)} SELECT {row} FROM {source};"

    def _clear(self) -> Iterator[str]:
        for name in self.program.schemas:
            yield from (f"  DELETE FROM {self.tables.part(name, part)};" for part in ("ins", "del"))

    def _body(self, name: str, returns: str, body: str) -> str:
        return _function(f"{self.function(name)}()", returns, body)


def _function(called: str, returns: str, body: str) -> str:
    """A function that runs with the rights of its owner: writers of base tables need no rights on views."""
    rights = "SECURITY DEFINER SET search_path = pg_catalog, pg_temp"
    return f"CREATE FUNCTION {called} RETURNS {returns} LANGUAGE plpgsql {rights} AS {_dollars(body)};"


def _dollars(body: str) -> str:
    """A dollar-quoted block, with a tag that does not occur in it."""
    tag, number = "$upshot$", 0
    while tag in body:
        number += 1
        tag = f"$upshot{number}$"
    return f"{tag}\nBEGIN\n{body}\nEND\n{tag}"
