# SPDX-License-Identifier: Apache-2.0
"""Vectors of numbers as LLVM instructions, because numba has no vector type: for ``simd_minmax``."""

from __future__ import annotations

from typing import Any

import llvmlite.ir
import numba.core.cgutils

ir: Any = llvmlite.ir
types: Any = numba.types
cgutils: Any = numba.core.cgutils

_INT32 = ir.IntType(32)


class Vectors:
    """What a loop does with vectors of ``lanes`` numbers of one type; ``larger`` says which extreme is better."""

    def __init__(self, context: Any, builder: Any, dtype: Any, lanes: int, larger: bool) -> None:
        self.context, self.builder, self.dtype = context, builder, dtype
        self.width, self.larger = lanes, larger
        self.type = ir.VectorType(context.get_value_type(dtype), lanes)
        self.lanes = self.whole(lanes)
        self.floats = isinstance(dtype, types.Float)

    def whole(self, number: int) -> Any:
        """A whole number, as a constant."""
        return self.context.get_constant(types.intp, number)

    def least(self, a: Any, b: Any) -> Any:
        return self.builder.select(self.builder.icmp_signed("<", a, b), a, b)

    def at(self, array_type: Any, array: Any, position: Any) -> Any:
        """The address of a place in a contiguous array."""
        data = self.context.make_array(array_type)(self.context, self.builder, array).data
        return self.builder.gep(data, [position])

    def load(self, base: Any, distance: Any) -> Any:
        address = self.builder.bitcast(self.builder.gep(base, [distance]), self.type.as_pointer())
        return self.builder.load(address, align=self.dtype.bitwidth // 8)

    def prefetch(self, base: Any, distance: Any) -> None:
        """Ask for the numbers at a place that will be read soon; it may lie outside of the array."""
        byte, int32 = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, int32, int32, int32])
        ask = cgutils.get_or_insert_function(self.builder.module, kind, "llvm.prefetch.p0i8")
        address = self.builder.bitcast(self.builder.gep(base, [distance]), byte)
        self.builder.call(ask, [address, int32(0), int32(3), int32(1)])

    def store(self, vector: Any, base: Any, distance: Any) -> None:
        address = self.builder.bitcast(self.builder.gep(base, [distance]), self.type.as_pointer())
        self.builder.store(vector, address, align=self.dtype.bitwidth // 8)

    def variable(self, value: Any) -> Any:
        return cgutils.alloca_once_value(self.builder, value)

    def better(self, a: Any, b: Any) -> Any:
        """The extreme of each lane; the first of equals."""
        sign = ">" if self.larger else "<"
        if self.floats:
            wins = self.builder.fcmp_ordered(sign, b, a)
        elif self.dtype.signed:
            wins = self.builder.icmp_signed(sign, b, a)
        else:
            wins = self.builder.icmp_unsigned(sign, b, a)
        return self.builder.select(wins, b, a)

    def distances(self) -> list[int]:
        """The distances 1, 2, 4 … at which a scan combines lanes."""
        return [1 << step for step in range(self.width.bit_length() - 1)]

    def lanes_before(self, vector: Any, distance: int) -> Any:
        """Every lane's number from ``distance`` lanes before; lanes without one keep their own."""
        return self._shuffle(vector, [i - distance if i >= distance else i for i in range(self.width)])

    def lanes_after(self, vector: Any, distance: int) -> Any:
        return self._shuffle(
            vector, [i + distance if i + distance < self.width else i for i in range(self.width)]
        )

    def lane(self, vector: Any, which: int) -> Any:
        """One lane's number in all lanes."""
        return self._shuffle(vector, [which] * self.width)

    def all_lanes(self, number: Any) -> Any:
        return self.lane(
            self.builder.insert_element(ir.Constant(self.type, ir.Undefined), number, _INT32(0)), 0
        )

    def first(self, vector: Any) -> Any:
        return self.builder.extract_element(vector, _INT32(0))

    def _shuffle(self, vector: Any, lanes: list[int]) -> Any:
        order = ir.Constant(ir.VectorType(_INT32, self.width), lanes)
        return self.builder.shuffle_vector(vector, ir.Constant(self.type, ir.Undefined), order)

    def none_odd(self) -> Any:
        return self.variable(ir.Constant(ir.VectorType(ir.IntType(1), self.width), None))

    def note_odd(self, odd: Any, vector: Any) -> None:
        """Remember in which lanes a NaN was seen."""
        if self.floats:
            nan = self.builder.fcmp_unordered("uno", vector, vector)
            self.builder.store(self.builder.or_(self.builder.load(odd), nan), odd)

    def any_odd(self, odd: Any) -> Any:
        bits = self.builder.bitcast(self.builder.load(odd), ir.IntType(self.width))
        return self.builder.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))

    def result(self, signature: Any, carried: Any, odd: Any) -> Any:
        return self.context.make_tuple(self.builder, signature.return_type, (carried, odd))
