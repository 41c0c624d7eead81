"""``python -m tests.fuzz [target …] --seconds N``: exit 0 where nothing was found."""

import argparse
import secrets
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from msgspec.structs import replace

from tests.fuzz.engine import fuzz
from tests.fuzz.targets import TARGETS

FOUND = Path(__file__).parent / "found"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("targets", nargs="*", metavar="target", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=float, default=60, help="for each target")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**32))
    parser.add_argument("--corpus", type=Path, help="a folder to begin and end with")
    given = parser.parse_args(arguments)
    names = given.targets or list(TARGETS)
    if unknown := [name for name in names if name not in TARGETS]:
        parser.error(f"no target {unknown[0]!r}; there are {', '.join(TARGETS)}")
    say(f"seed {given.seed}")
    code = 0
    for name in names:
        folder = given.corpus and given.corpus / name
        target = TARGETS[name]()
        if folder and folder.is_dir():
            kept = tuple(file.read_bytes() for file in sorted(folder.iterdir()))
            target = replace(target, seeds=(*target.seeds, *kept))
        report = fuzz(target, seconds=given.seconds, seed=given.seed)
        if folder:
            save(folder, report.corpus)
        say(str(report))
        for bug in report.bugs:
            code = 1
            (file,) = save(FOUND / name, [bug.data])
            say(f"{file}:\n{bug.what}")
    return code


def save(folder: Path, inputs: Sequence[bytes]) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / sha256(data).hexdigest()[:12] for data in inputs]
    for file, data in zip(files, inputs, strict=True):
        file.write_bytes(data)
    return files


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201  a command


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
