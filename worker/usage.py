"""What one request used, in tokens as the provider counted them."""

from msgspec import Struct


class Usage(Struct, frozen=True, omit_defaults=True):
    """Tokens of one request, as they are billed.

    *input* is what was neither read from nor written to the prompt cache, so
    the prompt is ``input + cache_read + cache_write``. *cache_write* includes
    *cache_write_1h*, which costs more. *output* includes *reasoning*.
    """

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    output: int = 0
    reasoning: int = 0
    web_searches: int = 0

    @property
    def prompt(self) -> int:
        """Tokens of the prompt, cached ones included."""
        return self.input + self.cache_read + self.cache_write

    @property
    def total(self) -> int:
        """Prompt and output together."""
        return self.prompt + self.output

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input=self.input + other.input,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
            cache_write_1h=self.cache_write_1h + other.cache_write_1h,
            output=self.output + other.output,
            reasoning=self.reasoning + other.reasoning,
            web_searches=self.web_searches + other.web_searches,
        )
