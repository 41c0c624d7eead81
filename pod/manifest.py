"""What a Pod is: the manifest, parsed."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Positive = Annotated[int, Meta(gt=0)]
Seconds = Annotated[float, Meta(gt=0)]
BUILTIN_TOOLS = (
    "read_file",
    "write_file",
    "edit_file",
    "bash",
    "grep",
    "glob",
)


class PodTable(Struct, frozen=True, forbid_unknown_fields=True):
    name: str = "pod"
    description: str = ""


class ModelTable(Struct, frozen=True, forbid_unknown_fields=True):
    provider: Literal["anthropic", "scripted"] = "anthropic"
    id: str = "claude-sonnet-5-5"
    max_tokens: Positive = 32_000
    """Most output tokens of one request, reasoning included."""
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    thinking: Literal["adaptive", "off"] | Positive | None = None
    temperature: Annotated[float, Meta(ge=0, le=1)] | None = None
    base_url: str | None = None
    api_key_env: str = "ANTHROPIC_API_KEY"
    context_window: Positive | None = None
    betas: tuple[str, ...] = ()


class PromptTable(Struct, frozen=True, forbid_unknown_fields=True):
    system: str | None = None
    system_file: str | None = None
    append: str | None = None


class LimitsTable(Struct, frozen=True, forbid_unknown_fields=True):
    max_requests: Positive | None = None
    max_total_tokens: Positive | None = None
    max_budget_usd: Annotated[float, Meta(gt=0)] | None = None
    timeout: Seconds | None = None


class RetryTable(Struct, frozen=True, forbid_unknown_fields=True):
    attempts: Positive = 8
    base: Seconds = 0.5
    cap: Seconds = 60.0
    idle_timeout: Seconds = 120.0


class CacheTable(Struct, frozen=True, forbid_unknown_fields=True):
    enabled: bool = True
    ttl: Literal["5m", "1h"] = "5m"


class ToolsTable(Struct, frozen=True, forbid_unknown_fields=True):
    builtin: tuple[str, ...] = BUILTIN_TOOLS
    python: tuple[str, ...] = ()
    max_output_bytes: Positive = 65_536
    max_output_tokens: Positive = 16_000
    timeout: Seconds | None = None
    bash_timeout: Seconds = 120.0


class PermissionsTable(Struct, frozen=True, forbid_unknown_fields=True):
    read_roots: tuple[str, ...] = (".",)
    write_roots: tuple[str, ...] = (".",)


class SessionTable(Struct, frozen=True, forbid_unknown_fields=True):
    dir: str | None = None
    durability: Literal["fsync", "flush"] = "fsync"


class Manifest(Struct, frozen=True, forbid_unknown_fields=True):
    pod: PodTable = PodTable()
    model: ModelTable = ModelTable()
    prompt: PromptTable = PromptTable()
    limits: LimitsTable = LimitsTable()
    retry: RetryTable = RetryTable()
    cache: CacheTable = CacheTable()
    tools: ToolsTable = ToolsTable()
    permissions: PermissionsTable = PermissionsTable()
    session: SessionTable = SessionTable()
