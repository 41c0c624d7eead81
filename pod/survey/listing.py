"""Which files there are: the command that lists them, and reading its answer.

The choice is made where the names are, so that a folder of a hundred thousand
files costs no more of the context than one of a hundred.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files

from msgspec import Struct, structs

from pod.survey.task import Task
from pod.survey.transcript import Call, Result, arguments
from tools.text import one_line

MOST_LISTED = 200_000
"""Files looked at; beyond, the names are not even read."""

LONG_BYTES = 2 * 1024 * 1024
"""Of a longer file only the beginning is read: neither lines are counted nor
is anything searched."""

ROOM = 24_000
"""Bytes that all names together may have in the answer (bash shows 60 KiB)."""

SECONDS = 30.0

MOST_GLOBBED = 500
"""What glob lists at most."""

BINARY = (
    " png jpg jpeg gif webp ico bmp tif tiff psd pdf zip gz tgz bz2 xz zst 7z rar jar"
    " war whl egg tar deb rpm iso dmg exe dll so dylib a o obj lib class pyc pyo wasm"
    " bin dat db sqlite sqlite3 mo ttf otf woff woff2 eot mp3 mp4 m4a ogg oga ogv wav"
    " flac avi mov mkv webm npy npz pkl parquet onnx pt safetensors h5 swp "
)
"""Suffixes, with blanks around each; so are the names in GENERATED."""
GENERATED = (
    " package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock"
    " cargo.lock poetry.lock uv.lock pdm.lock pipfile.lock composer.lock gemfile.lock"
    " go.sum flake.lock mix.lock "
)

CAPPED = "beyond the cap"


class Listed(Struct, frozen=True):
    """A file to survey. *size* in bytes and *lines* are None where unknown."""

    path: str
    size: int | None = None
    lines: int | None = None


class Listing(Struct, frozen=True):
    """What is there: *files* to survey, by path, and how many are *left* out, by why.

    *total* and *bytes* are of all files, those left out included.
    """

    files: tuple[Listed, ...]
    left: tuple[tuple[str, int], ...]
    total: int
    bytes: int | None
    is_cut: bool = False
    """Whether there are more, which nobody has looked at."""

    def is_first(self, file: Listed) -> bool:
        """Tell whether *file* is the first one of its folder."""
        folder = file.path.rpartition("/")[0]
        same = (f for f in self.files if f.path.rpartition("/")[0] == folder)
        return next(same) == file


def list_call(task: Task) -> Call:
    """Return the call that lists the files of *task*."""
    settings = {
        "report": task.report.replace("\n", "\x01"),
        "cap": str(task.cap),
        "most": str(MOST_LISTED),
        "long": str(LONG_BYTES),
        "room": str(ROOM),
        "binary": BINARY,
        "generated": GENERATED,
    }
    lines = [f"{name}={shlex.quote(value)}" for name, value in settings.items()]
    script = (files("pod.survey") / "list_files.sh").read_text("utf-8")
    title, _, rest = script.partition("\n")
    command = "\n".join([title, *lines, rest])
    return Call("bash", arguments(command=command, timeout=SECONDS))


def glob_call() -> Call:
    """Return the call whose answer tells what .gitignore files leave out."""
    return Call("glob", arguments(pattern="**/*"))


def needs_glob(listed: Result) -> bool:
    """Tell whether to ask glob, too.

    Where git has made the list there is nothing to add. Where it has not, glob
    knows what .gitignore says; where there is no list at all, it has one. In a
    large folder it would take long and not list all.
    """
    listing = None if listed.is_error else _of_script(listed.text)
    if listing is None or not listing.total:
        return True
    return "by\tgit" not in listed.text.split("\n") and listing.total <= MOST_GLOBBED


def read_listing(task: Task, listed: Result, globbed: Result | None) -> Listing | None:
    """Return what the calls have told; None where neither told anything of use."""
    listing = None if listed.is_error else _of_script(listed.text)
    names = None if globbed is None else _globbed(globbed)
    if listing is not None and listing.total:
        return listing if names is None else _without_ignored(listing, names)
    return _of_names(names, task) if names else listing


def _of_script(text: str) -> Listing | None:
    total: tuple[int, int] | None = None
    found: list[Listed] = []
    left: dict[str, int] = {}
    for line in text.split("\n"):
        match line.split("\t"):
            case ["total", count, size]:
                total = (int(count), int(size))
            case ["left", count, why]:
                left[why] = int(count)
            case ["file", size, lines, name]:
                known = int(lines) if int(lines) >= 0 else None
                found.append(Listed(unquoted(name), int(size), known))
            case _:
                pass
    if total is None:
        return None
    is_cut = "cut" in text.split("\n")
    return Listing(_by_folder(found), tuple(sorted(left.items())), *total, is_cut)


def _by_folder(found: Iterable[Listed]) -> tuple[Listed, ...]:
    """Put the files of a folder side by side, before those of the folders in it."""
    return tuple(sorted(found, key=lambda file: file.path.rpartition("/")[::2]))


def _globbed(result: Result) -> list[str] | None:
    """Return the names in glob's answer; None where they are not all there."""
    if result.is_error:
        return None
    lines = result.text.split("\n")
    if lines[-1].startswith("["):
        return None
    return [] if lines[0].startswith('glob "') else lines


def _without_ignored(listing: Listing, names: Iterable[str]) -> Listing:
    """Leave out what glob does not list: .gitignore counts without git, too."""
    known = set(names)
    kept = tuple(file for file in listing.files if one_line(file.path) in known)
    ignored = len(listing.files) - len(kept)
    if not ignored:
        return listing
    left = (*listing.left, ("named in .gitignore", ignored))
    return structs.replace(listing, files=kept, left=left)


def _of_names(names: Iterable[str], task: Task) -> Listing:
    """Choose from bare *names*, as the script does; there may be no shell."""
    left: dict[str, int] = {}
    ranked: list[tuple[int, int, str]] = []
    taken: dict[str, int] = {}
    total = 0
    for name in sorted(names, key=lambda name: (name.count("/"), name)):
        base = name.rpartition("/")[2].lower()
        if name == task.report or _REPORT.fullmatch(name):
            continue
        total += 1
        suffix = base.rpartition(".")[2] if "." in base[1:] else ""
        why = (
            "binary by name"
            if f" {suffix} " in BINARY
            else "generated"
            if f" {base} " in GENERATED
            else ""
        )
        if why:
            left[why] = left.get(why, 0) + 1
            continue
        rank = taken[suffix] = taken.get(suffix, 0) + 1
        ranked.append((rank, name.count("/"), name))
    chosen = sorted(ranked)[: task.cap]
    if len(ranked) > len(chosen):
        left[CAPPED] = len(ranked) - len(chosen)
    found = _by_folder([Listed(name) for _, _, name in chosen])
    return Listing(found, tuple(sorted(left.items())), total, None)


_REPORT = re.compile(r"pod-report(?:-[0-9]+)?\.md")


def unquoted(word: str) -> str:
    r"""Return the name that bash's printf %q made *word* of.

    Bytes that are no UTF-8 become U+FFFD: no tool can be told of such a name.
    """
    if word.startswith("$'") and word.endswith("'"):
        data = _ANSI_C.sub(_byte, word[2:-1].encode())
        return data.decode("utf-8", "replace")
    return "" if word == "''" else re.sub(r"\\(.)", r"\1", word, flags=re.DOTALL)


_ANSI_C = re.compile(rb"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|(.))", re.DOTALL)
_LETTERS = {
    b"n": b"\n",
    b"t": b"\t",
    b"r": b"\r",
    b"a": b"\a",
    b"b": b"\b",
    b"e": b"\x1b",
    b"E": b"\x1b",
    b"f": b"\f",
    b"v": b"\v",
}


def _byte(found: re.Match[bytes]) -> bytes:
    if found[1]:
        return bytes([int(found[1], 8) & 0xFF])
    if found[2]:
        return bytes([int(found[2], 16)])
    return _LETTERS.get(found[3], found[3])


def batches(
    files: Sequence[Listed], most: int, most_bytes: int, cost: Callable[[Listed], int]
) -> list[Listed]:
    """Return the first few of *files*, as many as are read side by side.

    *cost* says how many bytes the answers about a file have, about; together
    they stay under *most_bytes*, but for a file that costs more by itself.
    """
    taken: list[Listed] = []
    room = most_bytes
    for file in files[:most]:
        room -= cost(file)
        if taken and room < 0:
            break
        taken.append(file)
    return taken
