"""The assembler makes what the kernel's machine understands."""

import struct

import pytest
from hypothesis import given, strategies as st

from tests.tools.sandbox.machine import answer
from tools.sandbox.bpf import And, If, Label, Load, Return, Unless, assemble

WORDS = st.integers(0, 2**32 - 1)


@given(value=WORDS, operand=WORDS)
def test_jumps_compare_as_they_say(value: int, operand: int) -> None:
    for test, expected in (
        ("==", value == operand),
        (">=", value >= operand),
        ("&", bool(value & operand)),
    ):
        for jump, leads in ((If, expected), (Unless, not expected)):
            program = assemble(
                [
                    Load(0),
                    jump(test, operand, "there"),  # type: ignore[arg-type]  # of a tuple
                    Return(1),
                    Label("there"),
                    Return(2),
                ]
            )

            assert answer(program, struct.pack("<I", value)) == (2 if leads else 1)


@given(value=WORDS, mask=WORDS)
def test_bits_are_masked(value: int, mask: int) -> None:
    program = assemble(
        [
            Load(0),
            And(mask),
            If("==", value & mask, "same"),
            Return(1),
            Label("same"),
            Return(2),
        ]
    )

    assert answer(program, struct.pack("<I", value)) == 2


def test_a_label_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ValueError, match="no label 'nowhere'"):
        assemble([If("==", 1, "nowhere"), Return(0)])


def test_a_jump_back_or_too_far_is_an_error() -> None:
    with pytest.raises(ValueError, match="-2 steps away"):
        assemble([Label("back"), Load(0), If("==", 1, "back"), Return(0)])
    with pytest.raises(ValueError, match="256 steps away"):
        assemble([If("==", 1, "far"), *[Load(0)] * 256, Label("far"), Return(0)])
