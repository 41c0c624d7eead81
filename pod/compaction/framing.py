"""How the parts of a compacted context read.

File text and user messages stand between two lines with a code made from their
own hash: no text can hold the code that closes it.
"""

import re
from collections.abc import Sequence
from hashlib import sha256

from pod.entries import Compaction, Directive, FileDetails, Reference
from pod.toml_text import printable
from prompts import fill
from worker.items import SystemText


def leading_items(compaction: Compaction) -> list[SystemText]:
    """Return what stands before the kept items: summary, directives, files, references."""
    texts = []
    if compaction.summary.strip():
        texts.append(summary_text(compaction.summary))
    if compaction.directives:
        texts.append(directives_text(compaction.directives))
    texts += [
        auto_read_text(file.path, file.text, start=file.start, end=file.end)
        for file in compaction.auto_read
    ]
    if compaction.references:
        texts.append(references_text(compaction.references))
    return [SystemText(text) for text in texts]


def summary_text(summary: str) -> str:
    return fill("compaction_summary", summary=escaped(summary))


def branch_summary_text(summary: str, details: FileDetails) -> str:
    """Return what was done on a branch that was left, as the model is told of it.

    The names of its files stand behind the summary.
    """
    text = fill("branch_summary_context", summary=escaped(summary))
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
        place=printable(path) + lines,
        nonce=nonce(text),
        text=escaped(text.removesuffix("\n")),
    )


def references_text(references: Sequence[Reference]) -> str:
    lines = [
        f"- {printable(reference.path)}"
        + (f" ({printable(reference.use)})" if reference.use else "")
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
