"""What others say in a few bytes: hooks, servers, .gitignore files, rules, files."""

import json

import msgspec
from msgspec import Raw

from pod import field_types, overrides
from pod.hooks import answers
from pod.hooks.payloads import PostToolCall
from pod.manifest import PermissionsTable
from pod.manifest_errors import ManifestError
from pod.merge import merge
from pod.permissions import commands, rulebook, rules, subjects
from tests.fuzz.engine import Target, quoted
from tools import edits, ignore, page, patterns, terminal, text
from tools.base import ToolError
from worker import error_text, failures, overflow, retry
from worker.client import ProviderError
from worker.compact import remote

MOST_WORDS = 4_000
"""Characters of a message about what was wrong."""


# What a hook answers.

SEEN = PostToolCall(
    session="s",
    run=None,
    name="bash",
    call_id="c",
    arguments=Raw(b"{}"),
    is_error=False,
    summary="s",
    content=None,
)


def parse_answer(data: bytes) -> None:
    for kind in {*answers.ANSWERS.values()}:
        try:
            answer = answers.parse(data, kind)
        except answers.Garbage as error:
            _check_words(str(error))
            continue
        assert answer.with_later(kind()) == answer, "an empty answer changes it"
        assert kind().with_later(answer) == answer, "laid over nothing it is another"
        json.dumps(str(answer.signed("h"))).encode()
        if isinstance(answer, answers.PostToolCallAnswer):
            seen = answers.changed(SEEN, answer)
            (seen.content or "").encode()


def hooks() -> Target:
    return Target(
        name="hooks",
        parse=parse_answer,
        modules=(answers,),
        seeds=quoted(
            "",
            "null",
            '{"cancel": true, "message": "no"}',
            '{"compaction": {"summary": "s", "first_kept": "e1", "details":'
            ' {"read_files": ["a"]}, "preserve_data": "{\\"a\\": 1}"}}',
            '{"prompt": "p", "context": ["a", "b"], "preserve_data": "[1]"}',
            '{"summary": {"text": "t"}, "instructions": "i", "label": "l"}',
            '{"stop": true, "context": ["a"]}',
            '{"deny": true, "message": "\\u0000"}',
            '{"summary": "s", "content": "c", "context": ["x"]}',
        ),
        words=quoted(
            '"cancel":', '"deny":', '"stop":true', '"message":', '"context":[', '"content":',
            '"compaction":{"summary":', '"preserve_data":"', '"\\ud800"', "null", "{}", "1e999",
        ),
    )  # fmt: skip


# What a summary endpoint answers, and what any server says of an error.


def parse_summary(data: bytes) -> None:
    try:
        remote._summary(data).encode()
    except ProviderError as error:
        _check_words(error.failure.message)


def summaries() -> Target:
    return Target(
        name="summary",
        parse=parse_summary,
        modules=(remote,),
        seeds=quoted(
            '{"summary": "done", "model": "m"}', '{"summary": null}', "[]", ""
        ),
        words=quoted('"summary":', '"\\ud83d"', "null", "[[", "\0"),
    )


def parse_error(data: bytes) -> None:
    first, _, rest = data.partition(b"\n")
    said = rest.decode(errors="replace")
    headers = {"retry-after": first.decode("latin-1")}
    headers["retry-after-ms"] = headers["x-should-retry"] = headers["retry-after"]
    headers["anthropic-ratelimit-requests-reset"] = headers["retry-after"]
    for status in (None, 200, 400, 413, 429, 500, 529):
        failure = failures.classify(status, None, said, headers, now=1e9)
        _check_words(failure.message)
        wait = retry.next_wait(retry.RetryPolicy(), failure, 1, 0.5)
        assert wait is None or 0 <= wait < 1e6, f"waits {wait} seconds"
        overflow.window_from(failure, 200_000)


def errors() -> Target:
    return Target(
        name="errors",
        parse=parse_error,
        modules=(failures, error_text, overflow, retry),
        seeds=quoted(
            '3\n{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}',
            "1.5\nprompt is too long: 215000 tokens > 200000 maximum",
            "true\n<html><title>502 Bad Gateway</title><body>nginx</body></html>",
            "Wed, 21 Oct 2026 07:28:00 GMT\nmax_tokens: 9000 > 8192",
            '2001-09-09T01:46:50Z\n{"error":{"message":"529 overloaded","code":529}}',
            "-1\nPlease try again in 6m0s",
            "x\ninput length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
        ),
        words=quoted(
            "tokens", "maximum context length is", "try again in", "ms", "hours", "1e999",
            "429", "too long", " > ", "99999999999999999999", "per minute", "nan", "inf",
            '"error":', '"message":', "retry", "\n", "<", ">", "&lt;",
        ),
    )  # fmt: skip


# The rules of a .gitignore.

PATHS = (
    "a",
    "a/",
    "a/b",
    "a/b/c.py",
    ".x",
    "a" * 200,
    "a/" * 40 + "a",
    "é\n",
    "[!]-]/",
)


def parse_ignore(data: bytes) -> None:
    said = data.decode(errors="replace")
    found = ignore.Rules().below("", said)
    nested = ignore.Rules.above([ignore.IgnoreFile("a/", said)]).below("a/", said)
    for path in PATHS:
        found.ignore(path)
        if path.startswith("a/"):
            nested.ignore(path)


def gitignores() -> Target:
    return Target(
        name="gitignore",
        parse=parse_ignore,
        modules=(ignore, patterns),
        seeds=quoted(
            "*.py\n!keep.py\n/build/\n", "**/a/**/b\n#c\n\\#d\n", "[a-z]*[!x]\n[]]\n",
            "a/\n!a/b\ndoc/**\n", "trailing \\ \n  \n\\!x\r\n",
        ),
        words=quoted("**", "/", "!", "[", "]", "*", "?", "\\", "[!", "[z-a]", "{a,b}", "-", "^", "&&", "[[:alpha:]]"),
    )  # fmt: skip


# -c table.key=value.


def parse_override(data: bytes) -> None:
    try:
        merge(None, "pod.toml", [data.decode(errors="surrogateescape")])
    except ManifestError as error:
        for line in error.lines or [""]:
            _check_words(line)
            _check_line(line)


def settings() -> Target:
    return Target(
        name="overrides",
        parse=parse_override,
        modules=(overrides, field_types),
        seeds=quoted(
            'model.id="m"', "model.id=claude-x", "compaction.enabled = false", "limits.timeout=1.5",
            'tools.builtin=["bash"]', '"model" . id = x', "permissions.rules=[]", "model=1",
            "hooks=[{}]", 'sandbox.env = ["A"]',
        ),
        words=quoted("model.", "=", '"', "'", "[", "]", "{", "}", "#", "\n", "id", "inf", "compaction.order", "'''", "sk-ant-x", "\\u"),
    )  # fmt: skip


# Permission rules and the calls they are about.


def parse_rule(data: bytes) -> None:
    first, _, rest = data.decode(errors="replace").partition("\n")
    pattern = rulebook.pattern_of(first)
    command = commands.split_command(rest)
    assert command.parts, "a command line of no command"
    for action in ("allow", "deny"):
        rule = rules.Rule("bash", pattern, action, "r")
        book = rules.Rulebook((rule,), default="ask")
        for subject in (
            command,
            subjects.subject_of(rest, cwd="/w", resolve=_as_it_is),
            subjects.subject_of(json.dumps({"path": rest}), cwd="/w"),
        ):
            found = rules.judge(book, "bash", subject)
            assert found.action in (action, "ask"), found
    for listed in rulebook.split_tools(first):
        try:
            table = msgspec.convert({"allowed_tools": (listed,)}, PermissionsTable)
        except msgspec.ValidationError:
            continue
        assert rulebook.rulebook_of(table).default == "deny"


def _as_it_is(path: str) -> str:
    return path


def permission_rules() -> Target:
    return Target(
        name="permissions",
        parse=parse_rule,
        modules=(commands, rules, rulebook, subjects),
        seeds=quoted(
            "git *\ngit status && rm -rf /", "Bash(ls:*)\nA=1 sudo /bin/ls 'a;b' # x",
            'src/**\n{"path": "../src/a", "command": 3}', '*\n{"command": "echo \\"$(x)\\" > y"}',
            "npm run *\nif true; then npm run x 2>&1; fi", 'x?\n{"url": "http://x", "query": "q"}',
        ),
        words=quoted("*", "?", "[", ";", "&&", "|", "$(", "`", "'", '"', "\\", "\n", ">/dev/null", '"command":', "sudo ", "A=", "Bash(", ":*)", "<<"),
    )  # fmt: skip


# A file as a page of lines, and an edit of it.


def parse_file(data: bytes) -> None:
    said = text.decode(data)
    cleaned = text.clean(said).text
    cleaned.encode()
    assert text.clean(cleaned).text == cleaned, "clean text is not clean"
    text.clean(terminal.displayed(said)).text.encode()
    whole, pieces = _page(data, len(data) or 1), _page(data, 3)
    assert page.numbered(whole.lines) == page.numbered(pieces.lines), (
        "in pieces another"
    )
    old, _, new = cleaned.partition("\n")
    try:
        edits.apply_edits(cleaned, [edits.Edit(old_text=old, new_text=new)])
    except ToolError as error:
        _check_words(str(error))


def _page(data: bytes, step: int) -> page.Page:
    read = page.Page(1, 20, max_bytes=1_000, max_line_bytes=50)
    for at in range(0, len(data), step):
        read.feed(data[at : at + step])
    read.finish()
    return read


def files() -> Target:
    return Target(
        name="files",
        parse=parse_file,
        modules=(text, terminal, page, edits),
        seeds=(
            b"one\ntwo\r\nthree\rfour",
            b"\xff\xfea\0b\0",
            b"\xef\xbb\xbf\x1b[31mred\x1b[0m\x1b]0;title\x07\n",
            b"x" * 200 + b"\n" + b"y" * 60,
            b"50%\r60%\b\b70%\x0c\n\xed\xa0\x80\xf0\x9f\x98\x80",
        ),
        words=quoted("\n", "\r\n", "\r", "\x1b[", "\x1b]8;;", "\x07", "\0", "\x9b", "\x08", "\u2028", "\ufeff"),
    )  # fmt: skip


def _check_line(line: str) -> None:
    assert "\n" not in line, "an error of two lines"


def _check_words(words: str) -> None:
    assert words.strip(), "an error without a word"
    assert len(words) < MOST_WORDS, "an error as long as what was wrong"
    words.encode()
