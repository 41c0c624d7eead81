from hypothesis import given, settings, strategies as st

from tests.worker.loopback.pictures import png
from tests.worker.loopback.requests import (
    LOOP,
    Fields,
    Json,
    message,
    request,
    text,
    tool,
)
from worker.loopback.body import read_body
from worker.loopback.meter import PromptCache, Segment, prompt_tokens, segments
from worker.usage import Usage

MARK: Fields = {"type": "ephemeral"}
HOUR: Fields = {"type": "ephemeral", "ttl": "1h"}
PAGE = "x" * 4 * 996  # with its frame, a thousand tokens


def count(data: bytes) -> int:
    return prompt_tokens(read_body(data))


def page(number: int, mark: Json = None) -> Json:
    fields: Fields = {} if mark is None else {"cache_control": mark}
    return message("user", text(f"{number:03}{PAGE[3:]}", **fields))


def charged(cache: PromptCache, *pages: Json, model: str = "m") -> Usage:
    return cache.charge(model, segments(read_body(request(*pages, tools=None))))


def test_a_token_is_four_bytes_and_a_block_costs_four() -> None:
    assert count(request(message("user", text("12345678")), tools=None)) == 6
    assert count(request(message("user", text("123456789")), tools=None)) == 7
    assert count(request(message("user", text("äöü")), tools=None)) == 6


def test_every_part_of_the_prompt_counts() -> None:
    small = count(request(tools=None))

    assert count(request(tools=[tool()])) > small
    assert count(request(tools=None, system="be brief")) == small + 6
    assert count(request(*LOOP)) > count(request(*LOOP[:2]))


def test_a_picture_costs_by_its_pixels_not_its_bytes() -> None:
    def picture(width: int, height: int) -> int:
        data = png(width, height, size=10_000)
        source: Fields = {"type": "base64", "media_type": "image/png", "data": data}
        block: Fields = {"type": "image", "source": source}
        return count(request(message("user", block), tools=None))

    assert picture(750, 10) == 4 + 10
    assert picture(4000, 4000) == 4 + 1600


def test_without_breakpoints_nothing_is_cached() -> None:
    cache = PromptCache()

    assert charged(cache, page(1), page(2)) == Usage(input=2000)
    assert charged(cache, page(1), page(2)) == Usage(input=2000)


def test_the_same_request_again_is_read_from_the_cache() -> None:
    cache = PromptCache()

    first = charged(cache, page(1), page(2, MARK))
    second = charged(cache, page(1), page(2, MARK))

    assert first == Usage(cache_write=2000)
    assert second == Usage(cache_read=2000)


def test_a_longer_request_reads_what_the_shorter_wrote() -> None:
    cache = PromptCache()
    charged(cache, page(1), page(2, MARK))

    usage = charged(cache, page(1), page(2), page(3, MARK), page(4))

    assert usage == Usage(cache_read=2000, cache_write=1000, input=1000)


def test_a_changed_head_reads_nothing() -> None:
    cache = PromptCache()
    charged(cache, page(1), page(2, MARK))

    assert charged(cache, page(9), page(2, MARK)) == Usage(cache_write=2000)
    assert charged(cache, page(1), page(2, MARK), model="n") == Usage(cache_write=2000)


def test_a_short_prefix_is_not_cached() -> None:
    cache = PromptCache()

    assert charged(cache, page(1, MARK)) == Usage(input=1000)
    assert charged(cache, page(1, MARK), page(2)) == Usage(input=2000)


def test_a_breakpoint_looks_back_over_twenty_blocks_only() -> None:
    cache = PromptCache()
    charged(cache, page(1), page(2, MARK))
    near = [page(n) for n in range(3, 22)]

    wide = charged(cache, page(1), page(2), *near, page(90), page(91, MARK))
    again = charged(cache, page(1), page(2), *near, page(80, MARK))

    assert wide == Usage(cache_write=23_000)
    assert again == Usage(cache_read=2000, cache_write=20_000)


def test_an_hour_s_breakpoint_is_written_as_such() -> None:
    cache = PromptCache()

    usage = charged(cache, page(1), page(2, HOUR), page(3, MARK))

    assert usage == Usage(cache_write=3000, cache_write_1h=2000)


@settings(max_examples=50)
@given(
    st.lists(
        st.lists(
            st.builds(
                Segment,
                payload=st.sampled_from([b"a", b"b", b"c"]),
                tokens=st.integers(1, 3000),
                ttl=st.sampled_from([None, "5m", "1h"]),
            ),
            max_size=30,
        ),
        max_size=6,
    )
)
def test_every_token_is_charged_once(prompts: list[list[Segment]]) -> None:
    cache = PromptCache()

    for parts in prompts:
        usage = cache.charge("m", parts)

        assert usage.prompt == sum(part.tokens for part in parts)
        assert min(usage.input, usage.cache_read, usage.cache_write) >= 0
        assert 0 <= usage.cache_write_1h <= usage.cache_write
