"""How the parts of a compacted context read.

File text and user messages stand between two lines with a code made from their
own hash: no text can hold the code that closes it.
"""

import re
from collections.abc import Sequence
from hashlib import sha256

from pod.compaction.native_block import native_in
from pod.entries import Compaction, Directive, FileDetails, Reference
from pod.toml_text import printable
from prompts import fill
from worker.items import SystemText


def leading_items(compaction: Compaction) -> list[SystemText]:
    """Return what stands before the kept items: summary, directives, files, references."""
    texts = []
    summary: list[SystemText] = []
    if compaction.summary.strip():
        text = summary_text(compaction.summary)
        is_native = compaction.mode == "native" and not compaction.from_hook
        native = native_in(compaction.preserve_data) if is_native else None
        summary = [SystemText(text, native)]
    if compaction.directives:
        texts.append(directives_text(compaction.directives))
    texts += [
        auto_read_text(file.path, file.text, start=file.start, end=file.end)
        for file in compaction.auto_read
    ]
    if compaction.references:
        texts.append(references_text(compaction.references))
    return [*summary, *map(SystemText, texts)]


def summary_text(summary: str) -> str:
    """Return a summary as it stands in the context.

    The lists of files at its end keep their tags, the names in them do not.
    """
    return fill("compaction_summary", summary=_listed(summary))


def _listed(summary: str) -> str:
    """Return *summary* escaped, but for the tags of the lists of files at its end."""
    prose = without_files(summary)
    lists = [
        f"<{found[1]}>\n{escaped(found[2])}\n</{found[1]}>"
        for found in _FILES.finditer(summary[len(prose) :])
    ]
    return "\n\n".join(filter(None, [escaped(prose), "\n".join(lists)]))


def with_files(summary: str, details: FileDetails) -> str:
    """Return *summary* with the files that were read and changed behind it.

    Lists that were at its end before are taken away.
    """
    return "\n\n".join(filter(None, (without_files(summary), file_tags(details))))


def without_files(summary: str) -> str:
    """Return *summary* without the lists of files at its end."""
    text = summary.rstrip()
    while (at := _list_at_end(text)) is not None:
        text = text[:at].rstrip()
    return text


def _list_at_end(text: str) -> int | None:
    """Return where a list of files begins that *text* ends with, None without one."""
    for tag in _FILE_TAGS:
        if text.endswith(f"\n</{tag}>") and (at := text.rfind(f"<{tag}>\n")) >= 0:
            return at
    return None


_FILE_TAGS = ("read-files", "modified-files")
_FILES = re.compile(r"<(read-files|modified-files)>\n(.*?)\n</\1>", re.DOTALL)


def branch_summary_text(summary: str, details: FileDetails) -> str:
    """Return what was done on a branch that was left, as the model is told of it.

    The names of its files stand behind the summary, in the place of lists that
    another agent put there.
    """
    prose = escaped(without_files(summary)) if file_tags(details) else _listed(summary)
    text = fill("branch_summary_context", summary=prose)
    return "\n\n".join(filter(None, (text, file_tags(details))))


MOST_FILES = 50
"""Names in one list of files; of more, those touched last and a count are given."""


def file_tags(details: FileDetails) -> str:
    """Return the files that were read and changed, between tags; "" without any.

    The one touched last stands last.
    """
    parts = [
        _files("read-files", details.read_files),
        _files("modified-files", details.modified_files),
    ]
    return "\n".join(part for part in parts if part)


def _files(tag: str, paths: Sequence[str]) -> str:
    if not paths:
        return ""
    names = [escaped(printable(path)) for path in paths[-MOST_FILES:]]
    if more := len(paths) - MOST_FILES:
        names[:0] = [f"({more} more, touched before these)"] if more > 0 else []
    return "\n".join([f"<{tag}>", *names, f"</{tag}>"])


def directives_text(directives: Sequence[Directive]) -> str:
    blocks = [directive_text(directive.text) for directive in directives]
    return fill("user_directives", messages="\n".join(blocks))


def directive_text(text: str) -> str:
    """Return one message as it stands among the directives."""
    code = nonce(text)
    return f"<user-message {code}>\n{escaped(text)}\n</user-message {code}>"


def auto_read_text(
    path: str, text: str, *, start: int | None = None, end: int | None = None
) -> str:
    """Return the block that puts *text* of a file in front of the model.

    *start* and *end* are 1-based lines, both included; None for a whole file.
    Its tokens are what an auto-read costs.
    """
    lines = "" if start is None else f":{start}-{start if end is None else end}"
    return fill(
        "auto_read",
        place=escaped(printable(path)) + lines,
        nonce=nonce(text),
        text=escaped(text.removesuffix("\n")),
    )


def references_text(references: Sequence[Reference]) -> str:
    lines = [
        f"- {escaped(printable(reference.path))}"
        + (f" ({escaped(printable(reference.use))})" if reference.use else "")
        for reference in references
    ]
    return fill("references", files="\n".join(lines))


def nonce(text: str) -> str:
    """Return a code that *text* cannot contain but by finding a fixed point of SHA-256."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def escaped(text: str) -> str:
    """Return *text* without anything that looks like a boundary of ours.

    Tags of other kinds (HTML, XML) stay as they are: the model copies from this
    text when it edits.
    """
    return _HEADS.sub(r"\\\g<0>", _TAGS.sub("&lt;", text))


_TAGS = re.compile(
    r"<(?=(?:\s*/\s*)?(?:system|(?i:file-text|user-message|previous-summary|"
    r"conversation|additional-context|read-files|modified-files|system-reminder|"
    r"function_calls|function_results|branch-summary))(?![\w-]))"
)
_HEADS = re.compile(
    r"^[ \t]*(?=\[(?:Auto-read file:|Referenced files|User directives|"
    r"Summary of the session|Summary of a branch))",
    re.IGNORECASE | re.MULTILINE,
)
