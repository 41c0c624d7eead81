import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from worker.counters import (
    PIECE,
    Count,
    O200k,
    cached_vocabulary,
    tiktoken_count,
    toktok_count,
)

COUNTER = O200k()


@pytest.fixture(scope="module")
def fallback() -> Count:
    count = tiktoken_count({})
    assert count is not None
    return count


def test_text_is_counted_as_o200k() -> None:
    assert COUNTER.count("hello world") == 2
    assert COUNTER.count("") == 0
    assert COUNTER.count("<|endoftext|>") > 1


def test_lone_surrogates_are_counted_not_refused() -> None:
    assert COUNTER.count("a\ud800b") == COUNTER.count("a?b")


def test_importing_the_counters_loads_no_tokenizer() -> None:
    code = (
        "import sys, worker.counters, worker.tokens;"
        "worker.counters.O200k();"
        "print(sorted({'toktok', 'tiktoken', 'regex', 'pydantic'} & set(sys.modules)))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )

    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    "piece",
    ["a", " ", "=", "中", "\t", "\u3000", "ab", "^", "🎉", "\0"],
)
def test_one_giant_piece_is_counted_in_linear_time(piece: str) -> None:
    text = piece * 1_100_000 + "x"
    start = time.thread_time()

    tokens = COUNTER.count(text)

    assert 0 < tokens <= len(text.encode())
    assert time.thread_time() - start < 2


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=300))
def test_the_fallback_counts_as_the_first_choice_does(
    fallback: Count, text: str
) -> None:
    assert fallback(text) == COUNTER.count(text)


def test_the_fallback_is_fed_no_piece_it_would_choke_on(fallback: Count) -> None:
    text = " " * 1_100_000 + "x"

    assert fallback(text) == pytest.approx(COUNTER.count(text), rel=0.01)


def test_cutting_for_the_fallback_costs_next_to_nothing(fallback: Count) -> None:
    text = "def count(text: str) -> int:\n    return len(text)\n" * 3_000

    assert len(text) > 2 * PIECE
    assert 0 <= fallback(text) - COUNTER.count(text) <= 2 * len(text) // PIECE


def test_the_public_counter_will_do_where_the_private_one_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    newer = ModuleType("toktok")
    vars(newer)["batch_count"] = vars(import_module("toktok"))["batch_count"]
    monkeypatch.setitem(sys.modules, "toktok", newer)

    count = toktok_count()

    assert count is not None
    assert count("hello world, twice") == COUNTER.count("hello world, twice")


def test_without_any_tokenizer_bytes_are_counted_and_it_is_said_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "toktok", None)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    said: list[str] = []
    counter = O200k(said.append)

    counts = [counter.count(text) for text in ("", "abcd", "é" * 30, "a\ud800")]

    assert counts == [0, 2, 20, 1]
    assert len(said) == 1
    assert "no tokenizer" in said[0]


def test_a_damaged_cached_vocabulary_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "fb374d419588a4632f3f557e76b4b70aebbca790"
    path.write_bytes(b"IQ== 0\n")

    assert cached_vocabulary({"TIKTOKEN_CACHE_DIR": str(tmp_path)}) is None


def test_a_tokenizer_is_loaded_once_by_many_threads() -> None:
    counter = O200k()

    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(counter.count, ["hello world"] * 40))

    assert counts == [2] * 40
