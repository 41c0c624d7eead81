"""A small assembler for the classic BPF programs that seccomp takes.

See <linux/filter.h> and seccomp(2). A program is a list of steps; jumps name
labels, and lead forward only.
"""

import struct
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

_LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
_AND = 0x54  # BPF_ALU | BPF_AND | BPF_K
_RETURN = 0x06  # BPF_RET | BPF_K
_JUMPS = {"==": 0x15, ">=": 0x35, "&": 0x45}  # BPF_JMP | … | BPF_K
_FARTHEST = 255

INSTRUCTION = struct.Struct("=HBBI")
"""struct sock_filter: code, jt, jf, k."""


class Load(Struct, frozen=True):
    """Take the 32 bits at *offset* of the data as the value."""

    offset: int


class And(Struct, frozen=True):
    """Keep only the bits of *mask* of the value."""

    mask: int


class If(Struct, frozen=True):
    """Go to the label *then* if the value compares so with *operand*, else go on."""

    test: Literal["==", ">=", "&"]
    operand: int
    then: str


class Unless(Struct, frozen=True):
    """Go on if the value compares so with *operand*, else go to the label *then*."""

    test: Literal["==", ">=", "&"]
    operand: int
    then: str


class Label(Struct, frozen=True):
    """Where jumps to *name* lead."""

    name: str


class Return(Struct, frozen=True):
    """End with this answer."""

    answer: int


Step = Load | And | If | Unless | Label | Return


def assemble(steps: Sequence[Step]) -> bytes:
    """Return the program's bytes. Raises ValueError for a jump that cannot be made."""
    places: dict[str, int] = {}
    length = 0
    for step in steps:
        if isinstance(step, Label):
            places[step.name] = length
        else:
            length += 1
    code: list[bytes] = []
    for step in steps:
        match step:
            case Label():
                continue
            case Load(offset):
                code.append(INSTRUCTION.pack(_LOAD, 0, 0, offset))
            case And(mask):
                code.append(INSTRUCTION.pack(_AND, 0, 0, mask))
            case Return(answer):
                code.append(INSTRUCTION.pack(_RETURN, 0, 0, answer))
            case If(test, operand, then):
                far = _distance(places, then, len(code))
                code.append(INSTRUCTION.pack(_JUMPS[test], far, 0, operand))
            case Unless(test, operand, then):
                far = _distance(places, then, len(code))
                code.append(INSTRUCTION.pack(_JUMPS[test], 0, far, operand))
    return b"".join(code)


def _distance(places: dict[str, int], name: str, here: int) -> int:
    if name not in places:
        raise ValueError(f"there is no label {name!r}")
    distance = places[name] - here - 1
    if not 0 <= distance <= _FARTHEST:
        raise ValueError(f"the label {name!r} is {distance} steps away")
    return distance
