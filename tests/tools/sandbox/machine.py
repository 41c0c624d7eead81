"""A machine that runs the BPF programs seccomp takes, for looking at what they say."""

import struct
from collections.abc import Sequence

from tools.sandbox.bpf import INSTRUCTION


def seccomp_data(number: int, audit: int, arguments: Sequence[int] = ()) -> bytes:
    """Return a struct seccomp_data as a little-endian kernel makes it."""
    padded = [*arguments, *[0] * (6 - len(arguments))]
    return struct.pack("<iIQ6Q", number, audit, 0, *padded)


def answer(program: bytes, data: bytes) -> int:
    """Run *program* on *data* as the kernel does; return what it returns."""
    code = list(INSTRUCTION.iter_unpack(program))
    at, value = 0, 0
    while True:
        operation, jump_true, jump_false, operand = code[at]
        at += 1
        match operation:
            case 0x20:
                (value,) = struct.unpack_from("<I", data, operand)
            case 0x54:
                value &= operand
            case 0x06:
                return int(operand)
            case 0x15:
                at += jump_true if value == operand else jump_false
            case 0x35:
                at += jump_true if value >= operand else jump_false
            case 0x45:
                at += jump_true if value & operand else jump_false
            case _:
                raise AssertionError(f"operation {operation:#x}")
