"""Assemble rule plans into kernel code: registers for variables, an instruction per step, a buffer for each step that
Python must compute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from upshot.core.errors import DataError
from upshot.core.schema import Schema
from upshot.core.types import Kind, Type
from upshot.engine.local.components.externs import Extern, needs_python, operand_type
from upshot.engine.local.components.plan_shape import STATE_BIT, can_share, driving_bits, emitted, prefix, used_names
from upshot.engine.local.kernel import layout as op
from upshot.engine.local.kernel.memory import Buffer, store8
from upshot.engine.local.storage.codec import Codec, Misfit, null_code
from upshot.engine.local.storage.storage import Storage, Table
from upshot.plan.rule_plan import (
    Absent,
    Action,
    Change,
    Check,
    Compare,
    Compute,
    Drive,
    Match,
    Operand,
    Probe,
    RulePlan,
    Same,
    Step,
)  # fmt: skip
from upshot.syntax.ast import Call, Constant, Variable

_SOURCE = {
    Change.ALL: op.FROM_ROWS, Change.DELETED: op.FROM_DEL, Change.REDERIVED: op.FROM_RED, Change.INSERTED: op.FROM_INS,
}  # fmt: skip


@dataclass(slots=True)
class Phase:
    """Assembled plans of one component and stage, ready for the kernel."""

    plans: tuple[RulePlan, ...]
    code: Buffer
    table: Buffer
    registers: Buffer
    cursors: Buffer
    count: int
    externs: tuple[Extern, ...]
    origin: tuple[tuple[int, RulePlan], ...]
    """The start of each plan's code, for messages."""
    widest: int
    """The largest number of columns of a relation."""
    limits: Mapping[int, tuple[Schema, int]] = field(default_factory=dict)
    """By the place of the instruction that tests it: a column (schema and place) that declares fewer digits than its
    values may have."""
    texts: tuple[int, ...] = ()
    """The codes of text constants, which must not be reclaimed while the code is in use."""

    def plan_at(self, pc: int) -> RulePlan:
        return [plan for start, plan in self.origin if start <= pc][-1]

    def limit_digits(self, *, lenient: bool) -> None:
        """Set whether values with more digits than their column declares are accepted or stop the kernel."""
        for place, (schema, column) in self.limits.items():
            bound = op.UNBOUNDED if lenient else 10 ** schema.types[column].precision
            store8(self.code.address, place + 3, bound)

    def release(self, storage: Storage) -> None:
        for extern in self.externs:
            storage.drop(extern.input)
            storage.drop(extern.output)
        for buffer in (self.code, self.table, self.registers, self.cursors):
            buffer.release()


@dataclass(slots=True)
class _Segment:
    """A part of a plan that the kernel runs without Python: from its driver to the head or to a buffer. `levels` has
    the generator that binds each variable."""

    levels: dict[str, int] = field(default_factory=dict)
    generators: list[int] = field(default_factory=list)


class Assembler:
    """Collects the code of a phase's plans."""

    def __init__(
        self, storage: Storage, tables: Mapping[str, Table], schemas: Mapping[str, Schema], codec: Codec, widest: int
    ) -> None:
        self._storage, self._tables, self._schemas, self._codec = storage, tables, schemas, codec
        self._code: list[int] = [0]
        self._rows: list[list[int]] = []
        self._registers = self._widest = widest
        self._constants: dict[int, int] = {}
        self._levels = 0
        self._externs: list[Extern] = []
        self._origin: list[tuple[int, RulePlan]] = []
        self._texts: list[int] = []
        self._limits: dict[int, tuple[Schema, int]] = {}

    def assemble(self, plans: Iterable[RulePlan]) -> Phase:
        plans = tuple(plans)
        for plan in plans:
            self._origin.append((len(self._code), plan))
            _PlanAssembler(self, plan).run()
        registers = _words([0] * self._registers)
        for code, register in self._constants.items():
            store8(registers.address, register, code)
        return Phase(
            plans, _words(self._code), _words([w for row in self._rows for w in row]), registers,
            _words([0] * (self._levels + 1)), len(self._rows), tuple(self._externs), tuple(self._origin), self._widest,
            self._limits, tuple(self._texts),
        )  # fmt: skip

    # ---- used by the assembler of a plan -------------------------------------------------------------------

    @property
    def pc(self) -> int:
        return len(self._code)

    def table(self, relation: str) -> Table:
        return self._tables[relation]

    def column_type(self, relation: str, column: int) -> Type:
        return self._schemas[relation].columns[column].type

    def limit(self, place: int, relation: str, column: int) -> None:
        """Record the column whose digits are tested at a place."""
        self._limits[place] = self._schemas[relation], column

    def constant(self, constant: Constant) -> int:
        assert constant.type is not None
        try:
            code = self._codec.encoder(constant.type)(constant.value)
        except Misfit as misfit:
            raise DataError(f"a constant does not fit: {misfit}", code=misfit.slug, span=constant.span) from None
        if constant.type.in_dictionary and constant.value is not None:
            self._texts.append(code)
        if code not in self._constants:
            self._constants[code] = self.register()
        return self._constants[code]

    def null_register(self, type: Type) -> int:
        return self.constant(Constant(None, type.optional()))

    def register(self) -> int:
        self._registers += 1
        return self._registers - 1

    def level(self) -> int:
        self._levels += 1
        return self._levels - 1

    def emit(self, operation: int, back: int, words: Sequence[int]) -> int:
        """Append an instruction that continues with the next one; return its place."""
        place = self.pc
        self._code += [operation, back, place + 3 + len(words), *words]
        return place

    def operation(self, place: int) -> int:
        return self._code[place]

    def follows(self, place: int) -> int:
        return self._code[place + 2]

    def fuse(self, probe: int, emit: int) -> None:
        """Make the probe emit each of its matches itself."""
        self._code[probe] = op.I_PROBE_EMIT
        self._code[self._code[probe + 8] - 1] = emit + 3

    def patch(self, place: int, value: int) -> None:
        self._code[place] = value

    def plan_row(self, pc: int, table: int, source: int, plan: RulePlan, *, extern: int = -1) -> None:
        head = self._tables[plan.head].number
        row = [pc, table, source, int(plan.seed), extern, emitted(plan), head, int(can_share(plan))]
        self._rows.append(row + [0] * (op.PLAN_WORDS - len(row)))

    def add_extern(self, inputs: Sequence[str], steps: Sequence[Step], types: Mapping[str, Type]) -> Extern:
        computed = [step.target for step in steps if isinstance(step, Compute)]
        extern = Extern(
            tuple(inputs), tuple(steps), types,
            self._storage.create(len(inputs)), self._storage.create(len(inputs) + len(computed)),
        )  # fmt: skip
        self._externs.append(extern)
        return extern

    @property
    def extern_count(self) -> int:
        return len(self._externs)


class _PlanAssembler:
    def __init__(self, out: Assembler, plan: RulePlan) -> None:
        self._out, self._plan = out, plan
        self._registers: dict[str, int] = {}
        self._segment = _Segment()

    def run(self) -> None:
        """Assemble the plan's segments: kernel steps up to one that needs Python, a buffer, and so on."""
        self._start()
        steps = list(self._plan.steps)
        while steps:
            kernel_steps = prefix(steps, lambda step: not needs_python(step, self._plan.types))
            for step in kernel_steps:
                self._step(step)
            steps = steps[len(kernel_steps) :]
            python_steps = prefix(steps, lambda step: needs_python(step, self._plan.types))
            steps = steps[len(python_steps) :]
            if python_steps:
                self._through_python(python_steps, steps)
        self._head()

    # ---- registers -----------------------------------------------------------------------------------------

    def _register(self, name: str) -> int:
        if name not in self._registers:
            self._registers[name] = self._out.register()
        return self._registers[name]

    def _operand(self, operand: Operand) -> int:
        if isinstance(operand, Constant):
            return self._out.constant(operand)
        return self._register(operand.name)

    def _is_nullable(self, operand: Operand) -> bool:
        if isinstance(operand, Constant):
            return operand.value is None
        return self._plan.types[operand.name].nullable

    def _null(self, operand: Operand) -> int:
        """The code of NULL among the operand's values."""
        return null_code(operand_type(operand, self._plan.types))

    # ---- driver --------------------------------------------------------------------------------------------

    def _start(self) -> None:
        driver, out = self._plan.driver, self._out
        if driver is None:
            pc = out.emit(op.I_DRIVE, 0, [out.level(), 0, op.FROM_UNIT, 0, 0, 0, 0])
            out.plan_row(pc, 0, op.FROM_UNIT, self._plan)
        else:
            number = out.table(driver.match.relation).number
            mask, value = driving_bits(driver)
            source = _SOURCE[driver.change]
            words = [out.level(), number, source, mask, value, *self._columns(driver.match, checked=driver.match.key)]
            pc = out.emit(op.I_DRIVE, 0, words)
            out.plan_row(pc, number, source, self._plan)
        self._segment.generators.append(pc)
        if driver is not None:
            self._bound_by(driver.match, of_head=driver.of_head)
            self._nulls_of_driver(driver)

    def _nulls_of_driver(self, driver: Drive) -> None:
        if driver.of_head:
            return
        self._no_null_constant(driver.match)
        if driver.of_negation:
            for column, name in driver.match.binds:
                if self._out.column_type(driver.match.relation, column).nullable:
                    self._out.emit(op.I_NOT_NULL, self._back(), [self._null(Variable(name)), self._register(name)])

    def _columns(self, match: Match, *, checked: Sequence[tuple[int, Operand]]) -> list[int]:
        """Loads and checks of a row; `checked` is the part of the key that no index has compared."""
        loads = [(column, self._register(name)) for column, name in match.binds]
        checks = [(column, self._register(name)) for column, name in match.repeats]
        checks += [(column, self._operand(operand)) for column, operand in checked]
        return [len(loads), len(checks), *(word for pair in (*loads, *checks) for word in pair)]

    def _bound_by(self, match: Match, *, of_head: bool = False) -> None:
        level = len(self._segment.generators) - 1
        for column, name in match.binds:
            self._segment.levels[name] = level
            column_type = self._out.column_type(match.relation, column)
            if column_type.nullable and not self._plan.types[name].nullable:
                self._out.emit(op.I_NOT_NULL, self._back(), [self._null(Variable(name)), self._register(name)])
        if not of_head and not match.as_row:
            for column, name in match.repeats:
                if self._out.column_type(match.relation, column).nullable:
                    self._out.emit(op.I_NOT_NULL, self._back(), [self._null(Variable(name)), self._register(name)])

    def _back(self) -> int:
        return self._segment.generators[-1]

    # ---- steps ---------------------------------------------------------------------------------------------

    def _step(self, step: Step) -> None:
        match step:
            case Probe():
                self._probe(step)
            case Absent():
                self._absent(step)
            case Compare():
                self._compare(step)
            case Same(left, right):
                words = [op.COMPARISON_CODES["="], self._operand(left), self._operand(right)]
                self._out.emit(op.I_COMPARE, self._back(), words)
            case Compute():
                self._compute(step)
            case Check():
                self._check(step)

    def _probe(self, step: Probe) -> None:
        match, out = step.match, self._out
        table, mask = out.table(match.relation), STATE_BIT[match.state]
        self._no_null_constant(match)
        for column, operand in match.key:
            if out.column_type(match.relation, column).nullable and self._may_look_null(operand):
                self._required(operand, always=True)
        if step.whole:
            registers = [self._operand(operand) for _, operand in sorted(match.key, key=lambda pair: pair[0])]
            out.emit(op.I_MEMBER, self._back(), [table.number, mask, len(registers), *registers])
            return
        level = out.level()
        if match.key:
            indexed, beyond = match.key[: op.MAX_INDEX_COLUMNS], match.key[op.MAX_INDEX_COLUMNS :]
            index = table.index_on([column for column, _ in indexed])
            keys = [self._operand(operand) for _, operand in indexed]
            place = out.emit(
                op.I_PROBE, self._back(),
                [level, table.number, index.number, mask, len(keys), 0, *keys, 0, *self._columns(match,
                checked=beyond)],
            )  # fmt: skip
            out.patch(place + 8, place + 10 + len(keys))
        else:
            place = out.emit(op.I_SCAN, self._back(), [level, table.number, mask, *self._columns(match, checked=())])
        self._segment.generators.append(place)
        self._bound_by(match)

    def _no_null_constant(self, match: Match) -> None:
        """Make NULL constants match nothing. (A nullable variable reaches a second literal only from the head in a
        rederivation, where NULL must equal itself; elsewhere `check` gives such a variable a required type.)"""
        for _, operand in match.key:
            if isinstance(operand, Constant):
                self._required(operand)

    def _absent(self, step: Absent) -> None:
        out = self._out
        registers = [self._operand(operand) for operand in step.operands]
        skips = [
            out.emit(op.I_SKIP_NULL, self._back(), [self._null(operand), self._operand(operand), 0])
            for column, operand in enumerate(step.operands)
            if (self._is_nullable(operand) and not step.as_row)
            or (out.column_type(step.relation, column).nullable and self._may_look_null(operand))
        ]
        number, mask = out.table(step.relation).number, STATE_BIT[step.state]
        out.emit(op.I_ABSENT, self._back(), [number, mask, len(registers), *registers])
        for place in skips:
            out.patch(place + 5, out.pc)

    def _compare(self, step: Compare) -> None:
        for operand in (step.left, step.right):
            self._required(operand)
        left, right = self._operand(step.left), self._operand(step.right)
        self._out.emit(op.I_COMPARE, self._back(), [op.COMPARISON_CODES[step.op], left, right])

    def _may_look_null(self, operand: Operand) -> bool:
        """Test whether a value other than NULL can have the code of NULL; a nullable column never stores such a
        value."""
        type = operand_type(operand, self._plan.types)
        return not type.nullable and type.kind in (Kind.NUMBER, Kind.UNSIGNED)

    def _required(self, operand: Operand, *, always: bool = False) -> None:
        if always or self._is_nullable(operand):
            self._out.emit(op.I_NOT_NULL, self._back(), [self._null(operand), self._operand(operand)])

    def _compute(self, step: Compute) -> None:
        out, value = self._out, step.value
        operands = [a for a in value.args if isinstance(a, Variable | Constant)] if isinstance(value, Call) else [value]
        target_nullable = self._plan.types[step.target].nullable
        target = self._register(step.target)
        self._segment.levels[step.target] = max((self._level_of(o) for o in operands), default=0)
        skips: list[int] = []
        for operand in operands:
            if not self._is_nullable(operand):
                continue
            if target_nullable and isinstance(value, Call):
                if not skips:
                    out.emit(op.I_MOVE, self._back(), [target, out.null_register(self._plan.types[step.target])])
                skips.append(out.emit(op.I_SKIP_NULL, self._back(), [self._null(operand), self._operand(operand), 0]))
            elif not target_nullable:
                self._required(operand)
        if isinstance(value, Call):
            left, right = self._operand(operands[0]), self._operand(operands[-1])
            out.emit(op.I_ARITHMETIC, self._back(), [op.ARITHMETIC[value.function], target, left, right])
        else:
            out.emit(op.I_MOVE, self._back(), [target, self._operand(value)])
        for place in skips:
            out.patch(place + 5, out.pc)

    def _check(self, step: Check) -> None:
        out, name = self._out, step.test.name
        if name in ("true", "false"):
            if (name == "true") == step.negated:
                zero = out.constant(Constant(0, Type(Kind.NUMBER)))
                out.emit(op.I_COMPARE, self._back(), [op.COMPARISON_CODES["!="], zero, zero])
            return
        (operand,) = step.test.args
        assert isinstance(operand, Variable | Constant)
        if not self._is_nullable(operand):
            if not step.negated:
                zero = out.constant(Constant(0, Type(Kind.NUMBER)))
                out.emit(op.I_COMPARE, self._back(), [op.COMPARISON_CODES["!="], zero, zero])
            return
        out.emit(
            op.I_NOT_NULL if step.negated else op.I_IS_NULL, self._back(), [self._null(operand), self._operand(operand)]
        )

    def _level_of(self, operand: Operand) -> int:
        return self._segment.levels.get(operand.name, 0) if isinstance(operand, Variable) else 0

    def _cut(self, names: Iterable[str]) -> int:
        """The place to go back to after a head with these variables: the last generator that binds one of them. Later
        generators only test whether a match exists, and one match is enough."""
        level = max((self._segment.levels.get(name, 0) for name in names), default=0)
        return self._segment.generators[level]

    # ---- ends ----------------------------------------------------------------------------------------------

    def _head(self) -> None:
        plan, out = self._plan, self._out
        if emitted(plan) in (op.RETURN, op.PROVE_ROW):
            out.emit(op.I_EMIT_ROW, self._segment.generators[0], [])
            return
        registers = [self._operand(operand) for operand in plan.arguments]
        for column, operand in enumerate(plan.arguments):
            if out.column_type(plan.head, column).nullable and self._may_look_null(operand):
                out.emit(op.I_RESERVED, self._back(), [self._null(operand), registers[column]])
            self._limit_digits(column, operand, registers[column])
        names = [operand.name for operand in plan.arguments if isinstance(operand, Variable)]
        back = self._back() if plan.action in (Action.GAIN, Action.LOSE) else self._cut(names)
        if plan.action is Action.ASK:
            back = self._segment.generators[0]  # one head per driving row
        place = out.emit(op.I_EMIT, back, [len(registers), *registers])
        last = self._segment.generators[-1]
        if back == last and out.follows(last) == place and out.operation(last) == op.I_PROBE:
            out.fuse(last, place)

    def _limit_digits(self, column: int, operand: Operand, register: int) -> None:
        plan, out = self._plan, self._out
        type = out.column_type(plan.head, column)
        if not plan.too_long(column, type):
            return
        skip = 0
        if self._is_nullable(operand):
            skip = out.emit(op.I_SKIP_NULL, self._back(), [self._null(operand), register, 0])
        out.limit(out.emit(op.I_DIGITS, self._back(), [10**type.precision, register]), plan.head, column)
        if skip:
            out.patch(skip + 5, out.pc)

    def _through_python(self, steps: Sequence[Step], later: Sequence[Step]) -> None:
        """Buffer the live variables for Python, and continue with the rows that it returns."""
        plan, out = self._plan, self._out
        needed = used_names(steps) | used_names(later)
        needed |= {o.name for o in plan.arguments if isinstance(o, Variable)}
        live = [name for name in self._registers if name in self._segment.levels and name in needed]
        extern = out.add_extern(live, steps, plan.types)
        counted = plan.action in (Action.GAIN, Action.LOSE)
        back = self._back() if counted else self._cut(live)
        out.emit(op.I_BUFFER, back, [extern.input.number, len(live), *(self._register(name) for name in live)])
        names = [*live, *(step.target for step in steps if isinstance(step, Compute))]
        self._segment = _Segment()
        loads = [word for column, name in enumerate(names) for word in (column, self._register(name))]
        number = extern.output.number
        pc = out.emit(op.I_DRIVE, 0, [out.level(), number, op.FROM_BUFFER, 0, 0, len(names), 0, *loads])
        out.plan_row(pc, number, op.FROM_BUFFER, plan, extern=out.extern_count - 1)
        self._segment.generators.append(pc)
        self._segment.levels.update(dict.fromkeys(names, 0))


def _words(values: Sequence[int]) -> Buffer:
    buffer = Buffer(8 * max(1, len(values)))
    for i, value in enumerate(values):
        store8(buffer.address, i, value)
    return buffer
