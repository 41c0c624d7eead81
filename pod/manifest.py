"""What a Pod is: the manifest, parsed.

The docstrings of tables and fields are the reference: the JSON Schema, the
example and docs/manifest.md are made from them. Files and folders that the
manifest names (system_file, python, dir) are relative to the manifest's own
folder; read_roots and write_roots are relative to the folder the Pod is
started in. ``~`` at the start is the home folder.
"""

from typing import Annotated, Literal, get_args

from msgspec import Meta, Struct

from pod.entries import Mode
from pod.hooks.hook import TIMEOUT as HOOK_TIMEOUT, OnFailure
from pod.hooks.payloads import HookEvent

# The upper ends keep inf and slips of the keyboard out.
Positive = Annotated[
    int,
    Meta(gt=0, le=1_000_000_000_000, description="a whole number from 1 to 10^12"),
]
Seconds = Annotated[
    float, Meta(gt=0, le=31_536_000, description="seconds above 0, at most a year")
]
Line = Annotated[
    str,
    Meta(
        pattern=r"^[^\u0000-\u001f\u007f]+$",
        description="a text of one line, not empty",
    ),
]
PathText = Annotated[str, Meta(pattern=r"^[^\u0000]+$", description="a path")]
PythonTool = Annotated[
    str,
    Meta(
        pattern=r"^[^\u0000]+\.py:[A-Za-z_][A-Za-z0-9_]*$",
        description="a file and a function in it, like tools.py:search",
    ),
]
BuiltinTool = Literal["read_file", "write_file", "edit_file", "bash", "grep", "glob"]
BUILTIN_TOOLS: tuple[BuiltinTool, ...] = get_args(BuiltinTool)


EnvName = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="the name of an environment variable",
    ),
]


class PodTable(Struct, frozen=True, forbid_unknown_fields=True):
    """Who the Pod is."""

    name: Line = "pod"
    """Name of the Pod, as sessions and listeners show it."""
    description: str = ""
    """What the Pod is for, in a line. For people; no model reads it."""


class ModelTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The model that is asked, and how."""

    provider: Literal["anthropic", "scripted"] = "anthropic"
    """Who answers: "anthropic" is any server that speaks the Messages API, "scripted" a policy in the model's place, for trials without a key (docs/offline.md)."""
    id: Line = "claude-sonnet-5-5"
    """Name of the model, as the provider spells it. With "scripted": echo, echo:20 or survey."""
    max_tokens: Positive = 32_000
    """Most output tokens of one request, reasoning included. Lowered for a request where less room is left in the window."""
    effort: Annotated[
        Literal["low", "medium", "high", "xhigh", "max"] | None,
        Meta(examples=["high"]),
    ] = None
    """How much work the model puts into an answer. Unset: the provider's default."""
    thinking: Annotated[
        Literal["adaptive", "off"] | Positive | None, Meta(examples=["adaptive"])
    ] = None
    """Reasoning: "adaptive" (the model decides), "off", or a budget in tokens (at least 1024, below max_tokens). Unset: the provider's default."""
    temperature: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None, Meta(examples=[0.5])
    ] = None
    """How freely the model picks its words, 0 to 1. Unset: the provider's default."""
    base_url: Annotated[
        Annotated[
            str,
            Meta(pattern=r"^https?://[^\s\u0000]+$", description="an http(s) address"),
        ]
        | None,
        Meta(examples=["http://localhost:8080"]),
    ] = None
    """Address of a server that speaks the Anthropic Messages API (llama.cpp, Ollama, vLLM, a gateway). Unset: the provider's own."""
    api_key_env: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
            description="the name of an environment variable (never the key itself)",
        ),
    ] = "ANTHROPIC_API_KEY"
    """Name of the environment variable that holds the API key. The key itself never stands in a manifest."""
    context_window: Annotated[Positive | None, Meta(examples=[200_000])] = None
    """Tokens that prompt and output may have together. Unset: what is known of the model."""
    betas: tuple[Line, ...] = ()
    """Beta features to ask for, sent as the anthropic-beta header."""


class PromptTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The system prompt. A session keeps the one it started with."""

    system: Annotated[str | None, Meta(examples=["You review Python code."])] = None
    """The system prompt, in place of the built-in one. Not together with system_file."""
    system_file: Annotated[PathText | None, Meta(examples=["prompt.md"])] = None
    """A UTF-8 file with the system prompt, in place of the built-in one; relative to the manifest."""
    append: Annotated[str | None, Meta(examples=["Answer in French."])] = None
    """Text added behind the system prompt, after a blank line."""


class LimitsTable(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a run ends at the latest: exit 3, with what there is until then. Unset: no limit."""

    max_requests: Annotated[Positive | None, Meta(examples=[50])] = None
    """Most requests to the model in one run; retries of a request do not count."""
    max_total_tokens: Annotated[Positive | None, Meta(examples=[2_000_000])] = None
    """Most tokens of one run, input (cached too) and output of all its requests."""
    max_budget_usd: Annotated[
        Annotated[float, Meta(gt=0, le=1_000_000)] | None, Meta(examples=[5.0])
    ] = None
    """Most US dollars one run may cost. Needs models whose prices are known, those that compactions ask too."""
    timeout: Annotated[Seconds | None, Meta(examples=[3600.0])] = None
    """Most seconds one run may take."""


class RetryTable(Struct, frozen=True, forbid_unknown_fields=True):
    """How failed requests are tried again: overload, rate limits, broken connections."""

    attempts: Positive = 8
    """Times a request is tried in all, the first time included."""
    base: Seconds = 0.5
    """Seconds before the second attempt; doubled each time after it, with jitter."""
    cap: Seconds = 60.0
    """Longest wait in seconds. Where the provider asks for a longer one, the run fails and says when to come back."""
    idle_timeout: Seconds = 120.0
    """Seconds without a byte after which a response counts as broken off."""


class CacheTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The provider's prompt cache."""

    enabled: bool = True
    """Whether requests mark what the provider should cache."""
    ttl: Literal["5m", "1h"] = "5m"
    """How long the provider keeps it: five minutes, or an hour at a higher price."""


class ToolsTable(Struct, frozen=True, forbid_unknown_fields=True):
    """What the model can do."""

    builtin: tuple[BuiltinTool, ...] = BUILTIN_TOOLS
    """The built-in tools the model gets."""
    python: Annotated[
        tuple[PythonTool, ...], Meta(examples=[["my_tools.py:search"]])
    ] = ()
    """Tools of your own: a Python file, relative to the manifest, and a function in it. They run inside the Pod's process, unconfined. How to write one: docs/tools.md."""
    max_output_bytes: Positive = 65_536
    """Most bytes of one tool's output that the model sees; the full text goes to a file that the output names."""
    max_output_tokens: Positive = 16_000
    """Most tokens of one tool's output that the model sees."""
    timeout: Annotated[Seconds | None, Meta(examples=[600.0])] = None
    """Most seconds one call of any tool may take. Unset: no limit but the tool's own."""
    bash_timeout: Seconds = 120.0
    """Most seconds one bash command may take, where the call asks for no other limit."""


class RuleTable(Struct, frozen=True, forbid_unknown_fields=True):
    """A permission rule. The first one that matches a call decides; docs/permissions.md says what is matched."""

    action: Annotated[
        Literal["allow", "deny", "ask", "stop"],
        Meta(description='"allow", "deny", "ask" or "stop"'),
    ]
    """What becomes of the call: it runs; it is answered with an error; somebody is asked (nobody there: an error); or the run ends (exit 4)."""
    tool: Line = "*"
    """The tool's name, in upper or lower case; * and ? are wildcards."""
    pattern: Annotated[str, Meta(min_length=1, description="a text, not empty")] = "*"
    """What the call is about: its command, path, pattern, query or url, else its arguments as JSON. * is any text, ? one character. Commands joined by ; & | are judged one by one."""


PermissionMode = Literal[
    "default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"
]
ToolList = Annotated[
    str,
    Meta(
        pattern=r"^[^()\s\u0000]+(\([^\u0000]+\))?$",
        description='a tool, or a tool and a pattern, like "Bash(git *)"',
    ),
]


class PermissionsTable(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the tools may read and write, and which calls may run."""

    read_roots: tuple[PathText, ...] = (".",)
    """Folders the file tools may read in, relative to the folder the Pod is started in."""
    write_roots: tuple[PathText, ...] = (".",)
    """Folders the file tools may write in, relative to the folder the Pod is started in. Empty: nowhere."""
    rules: tuple[RuleTable, ...] = ()
    """Rules for tool calls, as [[permissions.rules]] tables with action, tool and pattern; the first that matches decides."""
    default_action: Annotated[
        Literal["allow", "deny", "ask"] | None, Meta(examples=["deny"])
    ] = None
    """What becomes of a call that no rule matches. Unset: "allow", but "deny" where allowed_tools is set."""
    mode: PermissionMode = "default"
    """How strict it is in all: "plan" runs no tool that may change anything, "acceptEdits" asks for all but the file tools, "dontAsk" takes "ask" and what no rule matches as denied, "bypassPermissions" takes them as allowed; rules that deny hold in each."""
    allowed_tools: tuple[ToolList, ...] = ()
    """Calls that are allowed, ahead of the rules: "Read", "Bash(git *)". With any, what no rule matches is denied."""
    disallowed_tools: tuple[ToolList, ...] = ()
    """Calls that are denied, ahead of everything else."""


class SandboxTable(Struct, frozen=True, forbid_unknown_fields=True):
    """What holds the commands that bash runs. What each tier promises: docs/security.md."""

    mode: Literal["auto", "bwrap", "landlock", "off"] = "auto"
    """Who holds them: "bwrap" is bubblewrap with namespaces, "landlock" the kernel alone, "auto" the better of the two that works here. Where none works no run starts. "off": commands can do whatever you can."""
    network: Literal["none", "host"] = "none"
    """What commands reach: "none" is no network (with bwrap one of their own, for servers under test), "host" is all that this machine reaches."""
    unix_sockets: bool = False
    """Whether commands may use unix sockets. With bwrap they reach those in the folders they see; with landlock any that your file permissions allow, those of Docker and ssh-agent too."""
    memory: Annotated[Positive | None, Meta(examples=[4_000_000_000])] = None
    """Most bytes of memory: of each process; of all commands together where a cgroup can be made. Unset: no limit."""
    processes: Annotated[Positive | None, Meta(examples=[500])] = None
    """Most processes (and threads): of all commands together where a cgroup can be made, else of each command with bwrap, of your user with the others. Unset: 4096 of each command with bwrap, unless Pod runs as root; no limit else."""
    env: Annotated[tuple[EnvName, ...], Meta(examples=[["VIRTUAL_ENV"]])] = ()
    """Names of environment variables that commands get beside PATH, HOME, the locale and the like. Never the API key's."""


class SessionTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The session log."""

    dir: Annotated[PathText | None, Meta(examples=["/var/lib/pod"])] = None
    """Folder for session logs, relative to the manifest; outside of every write root. Unset: the platform's state folder."""
    durability: Literal["fsync", "flush"] = "fsync"
    """What commits an entry: "fsync" survives a power cut, "flush" only a crash of the process."""


Share = Annotated[float, Meta(gt=0, le=1, description="a number above 0, at most 1")]


class CompactionTable(Struct, frozen=True, forbid_unknown_fields=True):
    """What happens when the context fills up: its older part is replaced by a summary."""

    enabled: bool = True
    """Whether the context is compacted by itself. If not, a full one ends the run (exit 7); by hand it still can be."""
    auto_continue: bool = True
    """Whether a Pod that stays asks the model to continue after a compaction behind a run, where no input waits: once for each of the user's messages."""
    mode: Annotated[Mode | None, Meta(examples=["summarize"])] = None
    """Who writes the summary: "worker" is an agent of its own that reads what matters, "summarize" a model that is asked once, "remote" a server of yours, "native" the provider itself, "mechanical" takes no model. Unset: worker, or remote where remote_endpoint is set."""
    order: tuple[Mode, ...] = ("worker", "summarize", "mechanical")
    """What is tried, one after the other, where the run cannot go on without a compaction. The mode comes first, wherever it stands in it."""
    compact_threshold: Annotated[Positive | None, Meta(examples=[80_000])] = None
    """Tokens of context from which on it is compacted once a run has ended. Unset: 8/9 of turn_threshold."""
    turn_threshold: Annotated[Positive | None, Meta(examples=[90_000])] = None
    """Tokens of context from which on it is compacted before the next request. Unset: 9/8 of compact_threshold; without that, what reserve_tokens and max_tokens leave of the window."""
    retained_tokens: Positive = 8_000
    """Tokens of the newest messages and results that stay as they are with "worker", "native" and "mechanical"."""
    reserve_tokens: Positive = 16_384
    """Tokens of the window that limits derived from it leave free; also beside prompt and answer of "summarize", whose summary may be no longer than 0.8 of it."""
    low_water: Share = 0.7
    """What a compaction must bring the context under, as a part of compact_threshold."""
    min_gain: Share = 0.1
    """The part of the context that must be gone after a compaction; less is a failure."""
    auto_read_budget: Positive = 8_000
    """Tokens of files that are put in front of the model again."""
    directive_budget: Positive = 4_000
    """Tokens of the user's own messages that are carried along word for word."""
    overview_tokens: Positive = 8_000
    """Tokens of the transcript that the compact worker gets to see."""
    compact_worker_max_input_tokens: Positive = 50_000
    """Most input tokens of one compact worker, each counted once, when it is first sent."""
    worker_max_requests: Positive = 20
    """Most requests of one compact worker."""
    worker_timeout: Seconds = 300.0
    """Most seconds of one compact worker."""
    worker_model: Annotated[Line | None, Meta(examples=["claude-haiku-5-5"])] = None
    """Name of the compact worker's model. Unset: the Pod's."""
    models: Annotated[tuple[Line, ...], Meta(examples=[["claude-haiku-5-5"]])] = ()
    """Models that "summarize" asks, one after the other where one fails. Empty: worker_model, or the Pod's."""
    keep_recent_tokens: Positive = 20_000
    """Tokens of the newest messages and results that stay as they are with "summarize" and "remote"; less where they would not fit under low_water."""
    summarize_timeout: Seconds = 300.0
    """Most seconds of "summarize", "remote" and "native", all attempts and models together."""
    short_summary: bool = False
    """Whether "summarize" and "remote" also write a title of one line."""
    remote_endpoint: Annotated[
        Annotated[
            str,
            Meta(pattern=r"^https?://[^\s\u0000]+$", description="an http(s) address"),
        ]
        | None,
        Meta(examples=["http://localhost:9000/summary"]),
    ] = None
    """Where "remote" sends {systemPrompt, prompt} and gets {summary}."""
    default_references: Annotated[
        int, Meta(ge=0, le=100, description="a whole number from 0 to 100")
    ] = 5
    """Files used last that the compact worker is told of, and that the context names afterwards."""
    summary_target: Positive = 2_000
    """Tokens the summary should have at most."""
    summary_cap: Positive = 4_000
    """Tokens above which a summary is refused."""
    max_failures: Positive = 3
    """Failures of one mode in a row after which it is left alone for a while."""
    cooldown: Seconds = 600.0
    """Seconds for which it is not asked then, but for new input or by hand."""


class PruneTable(Struct, frozen=True, forbid_unknown_fields=True):
    """Leaving out old tool output, before anything is compacted."""

    enabled: bool = True
    """Whether old tool output is left out of what the model sees. The log keeps it."""
    protect_tokens: Positive = 40_000
    """Tokens of the newest tool output that always stay."""
    min_savings: Positive = 20_000
    """Tokens that must be saved; for less nothing is left out."""


class HookTable(Struct, frozen=True, forbid_unknown_fields=True):
    """A command or a Python function that is asked, or told, at an event: docs/hooks.md. Those of one event are asked in the order they stand here."""

    event: Annotated[HookEvent, Meta(examples=["pre_tool_call"])]
    """When it is called."""
    command: Annotated[
        Annotated[
            tuple[PathText, ...],
            Meta(min_length=1, description="a list of words, the program first"),
        ]
        | None,
        Meta(examples=[["./guard.sh"]]),
    ] = None
    """The program and its arguments; no shell reads them. It runs in the manifest's folder, gets the event as JSON on stdin, and answers in JSON on stdout."""
    python: Annotated[PythonTool | None, Meta(examples=["hooks.py:guard"])] = None
    """In place of a command: a Python file, relative to the manifest, and a function in it. It runs inside the Pod's process."""
    timeout: Seconds = HOOK_TIMEOUT
    """Most seconds one call may take."""
    on_failure: Annotated[OnFailure | None, Meta(examples=["block"])] = None
    """What happens where it fails or takes too long: "continue" goes on as if it was not there, "block" stops what it was asked about. Unset: "continue", but "block" for pre_tool_call, which takes no other."""
    tools: Annotated[tuple[Line, ...], Meta(examples=[["bash"]])] = ()
    """For pre_tool_call and post_tool_call: the tools whose calls it is about. Empty: all."""


class ListenerTable(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a run's events go, a JSON object a line (docs/events.md): a file, a command or a unix socket, one of them. A run never waits for it: one that is too slow is dropped."""

    file: Annotated[PathText | None, Meta(examples=["events.jsonl"])] = None
    """A file that the lines are appended to, relative to the manifest; outside of every write root."""
    command: Annotated[
        Annotated[
            tuple[PathText, ...],
            Meta(min_length=1, description="a list of words, the program first"),
        ]
        | None,
        Meta(examples=[["./notify.sh"]]),
    ] = None
    """A program and its arguments that gets the lines on stdin; no shell reads the words. It runs in the manifest's folder, and what it prints goes to stderr."""
    socket: Annotated[PathText | None, Meta(examples=["/run/user/1000/watch.sock"])] = (
        None
    )
    """A unix socket to connect to, relative to the manifest. A connection that breaks is made again; what happened meanwhile is not told."""
    types: Annotated[
        tuple[Line, ...], Meta(examples=[["compact_start", "compact_done", "result"]])
    ] = ()
    """The types of events it gets. Empty: all, but for the deltas."""
    partial: bool = False
    """Whether it gets the deltas, too: text while it is written."""


class BranchSummaryTable(Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept of a branch when a session goes back to another point: see docs/tree.md."""

    enabled: bool = False
    """Whether a branch that is left is summarised for the one that is gone to, where nothing else is said (--summarize, --no-summarize)."""
    reserve_tokens: Positive = 16_384
    """Tokens of the window left free when a branch is summarised, for the order and the answer; the rest is for what was said on the branch, the newest first."""


class Manifest(Struct, frozen=True, forbid_unknown_fields=True):
    """A Pod's manifest: every table and every key may be left out."""

    pod: PodTable = PodTable()
    model: ModelTable = ModelTable()
    prompt: PromptTable = PromptTable()
    limits: LimitsTable = LimitsTable()
    retry: RetryTable = RetryTable()
    cache: CacheTable = CacheTable()
    tools: ToolsTable = ToolsTable()
    permissions: PermissionsTable = PermissionsTable()
    sandbox: SandboxTable = SandboxTable()
    session: SessionTable = SessionTable()
    compaction: CompactionTable = CompactionTable()
    branch_summary: BranchSummaryTable = BranchSummaryTable()
    prune: PruneTable = PruneTable()
    hooks: tuple[HookTable, ...] = ()
    listeners: tuple[ListenerTable, ...] = ()
