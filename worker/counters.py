"""Counts o200k tokens with whatever tokenizer is there.

In this order: toktok (linear, offline, exact), tiktoken with toktok's
vocabulary or with its own cached file, bytes. Nothing is loaded before the
first count, and nothing is ever downloaded.
"""

import os
import tempfile
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from hashlib import sha256
from math import ceil
from pathlib import Path
from threading import Lock

ENCODING = "o200k_base"

PIECE = 25_000
"""Characters, so at most 100 KB, that tiktoken is given at once: it is slow on
a longer run without a break, and on a million blanks it panics with a
BaseException."""

BYTES_PER_TOKEN = 3
"""Where there is no tokenizer. English prose has 4, JSON 3, base64 2."""

CACHED_FILE = "fb374d419588a4632f3f557e76b4b70aebbca790"
"""The name tiktoken caches the vocabulary under: the sha1 of its address."""

VOCABULARY_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"

Count = Callable[[str], int]


class O200k:
    """A Counter that loads its tokenizer when it is first needed.

    *say* is told, once, that there is no tokenizer and bytes are counted.
    """

    def __init__(self, say: Callable[[str], None] = lambda _: None) -> None:
        self._say = say
        self._lock = Lock()
        self._count: Count | None = None

    def count(self, text: str) -> int:
        """Return the o200k tokens of *text*; lone surrogates count as "?"."""
        if self._count is None:
            with self._lock:
                if self._count is None:
                    self._count = load_count(self._say)
        try:
            return self._count(text)
        except UnicodeEncodeError:
            return self._count(text.encode("utf-8", "replace").decode())


def load_count(say: Callable[[str], None]) -> Count:
    """Load the best tokenizer there is."""
    count = toktok_count() or tiktoken_count(os.environ)
    if count is None:
        say(
            "no tokenizer: toktok-rs cannot be loaded and tiktoken has no cached "
            f"{ENCODING} vocabulary. Tokens are estimated as bytes / "
            f"{BYTES_PER_TOKEN}; reinstall pod-runtime to count them"
        )
        return count_bytes
    return count


def toktok_count() -> Count | None:
    """Return toktok's counter, None without toktok.

    Its private one if it is there (100 times as fast for a short text), else
    the public one.
    """
    if (tokenizer := _toktok_tokenizer()) is not None:
        count: Count | None = getattr(tokenizer, "count", None)
        if count is not None and count("hello world") == 2:
            return count
    try:
        import toktok  # type: ignore[import-untyped]  # it has no stubs
    except ImportError:
        return None
    batch: Callable[..., list[int]] | None = getattr(toktok, "batch_count", None)
    if batch is None:
        return None
    return lambda text: batch([text], ENCODING, threads=1)[0]


def _toktok_tokenizer() -> object | None:
    """Return toktok's o200k tokenizer, which is no public API of it."""
    try:
        import toktok

        tokenizer: object = toktok._encoding(ENCODING)
    except (ImportError, AttributeError, TypeError, KeyError):
        return None
    return tokenizer


def tiktoken_count(env: Mapping[str, str]) -> Count | None:
    """Return a counter by tiktoken, None without it or without a vocabulary."""
    try:
        import tiktoken
    except ImportError:
        return None
    ranks = toktok_vocabulary() or cached_vocabulary(env)
    if ranks is None:
        return None
    encoding = tiktoken.Encoding(
        "o200k_offline",
        pat_str=_PATTERN,
        mergeable_ranks=ranks,
        special_tokens={},
    )

    def count(text: str) -> int:
        return sum(
            len(encoding.encode_ordinary(text[start : start + PIECE]))
            for start in range(0, len(text), PIECE)
        )

    return count


def toktok_vocabulary() -> dict[bytes, int] | None:
    """Read the vocabulary out of toktok, None where it does not give it."""
    read: Callable[[], list[bytes]] | None = getattr(
        _toktok_tokenizer(), "token_byte_values", None
    )
    if read is None:
        return None
    return {value: rank for rank, value in enumerate(read())}


def cached_vocabulary(env: Mapping[str, str]) -> dict[bytes, int] | None:
    """Read the vocabulary that tiktoken once downloaded, None where it is not."""
    folder = env.get("TIKTOKEN_CACHE_DIR") or env.get("DATA_GYM_CACHE_DIR")
    path = Path(folder or Path(tempfile.gettempdir()) / "data-gym-cache") / CACHED_FILE
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if sha256(data).hexdigest() != VOCABULARY_SHA256:
        return None
    try:
        pairs = (line.split() for line in data.splitlines() if line)
        return {b64decode(token): int(rank) for token, rank in pairs}
    except (ValueError, Base64Error):
        return None


def count_bytes(text: str) -> int:
    """Estimate tokens from bytes alone."""
    return ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN)


_UPPER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}"
_LOWER = r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
_ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_PATTERN = "|".join(
    [
        rf"[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]*[{_LOWER}]+{_ENDINGS}",
        rf"[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]+[{_LOWER}]*{_ENDINGS}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)
"""How o200k splits a text into words; part of the encoding."""
