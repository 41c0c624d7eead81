"""Inputs made of other inputs: pure functions of bytes and a random number generator."""

import re
from collections.abc import Sequence
from random import Random

MOST_BYTES = 20_000
"""Longer inputs are cut: they run slower and find nothing that short ones do not."""

NASTY = (
    b"",
    b"\0",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xa8",
    b"\xed\xa0\x80",
    b"\r",
    b"\r\n",
    b"\n\n",
    b"\x1b[2J",
    b'"',
    b"'",
    b"\\",
    b"\\ud800",
    b"\\u0000",
    b"{}",
    b"[]",
    b"[" * 600,
    b'{"a":' * 300,
    b"null",
    b"true",
    b"-1",
    b"1e999",
    b"NaN",
    b"9" * 400,
    b"18446744073709551616",
    b"0.1",
)
"""Bytes that have broken parsers before."""

_NAME = re.compile(rb'"[^"\\\n]{1,40}"')


def mutated(
    data: bytes, others: Sequence[bytes], words: Sequence[bytes], random: Random
) -> bytes:
    """Change *data* in some places; *words* are the target's own."""
    for _ in range(1 << random.randint(0, 4)):
        data = _changed(data, others, words, random)
    return data[:MOST_BYTES]


def _changed(
    data: bytes, others: Sequence[bytes], words: Sequence[bytes], random: Random
) -> bytes:
    at = random.randint(0, len(data))
    end = min(len(data), at + int(random.expovariate(1 / 12)) + 1)
    match random.randrange(10):
        case 0:  # another bit
            if at == len(data):
                return data
            return (
                data[:at]
                + bytes([data[at] ^ 1 << random.randrange(8)])
                + data[at + 1 :]
            )
        case 1:  # another byte
            return data[:at] + bytes([random.randrange(256)]) + data[at + 1 :]
        case 2:  # gone
            return data[:at] + data[end:]
        case 3:  # twice
            return data[:end] + data[at:]
        case 4:
            return data[:at] + random.choice(NASTY) + data[at:]
        case 5:
            return data[:at] + random.choice(words) + data[at:]
        case 6:
            return data[:at] + random.choice(words) + data[end:]
        case 7:  # the end of another
            other = random.choice(others)
            return data[:at] + other[random.randint(0, len(other)) :]
        case 8:  # one name in the place of another: what refers, and to what
            if not (names := list(_NAME.finditer(data))):
                return data
            there, put = random.choice(names), random.choice(names)
            return data[: there.start()] + put[0] + data[there.end() :]
        case _:  # a line moved
            lines = data.split(b"\n")
            line = lines.pop(random.randrange(len(lines)))
            lines.insert(random.randint(0, len(lines)), line)
            return b"\n".join(lines)
