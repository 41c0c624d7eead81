import os
from pathlib import Path

import pytest
import trio

from tests.tools.calls import refusal, run
from tools.base import ToolError, ToolOutput
from tools.edit_file import EditFile
from tools.scope import Opened, Scope


@pytest.fixture
def tool(workspace: Scope) -> EditFile:
    return EditFile(workspace, trio.Lock())


def edit(old: str, new: str, **more: bool) -> dict[str, object]:
    return {"old_text": old, "new_text": new, **more}


async def test_an_edit_says_what_it_changed(tool: EditFile, folder: Path) -> None:
    (folder / "a.py").write_text("one\ntwo\nthree\n")

    output = await run(
        tool, path="a.py", edits=[edit("two", "2\n2"), edit("three", "THREE")]
    )

    assert (folder / "a.py").read_text() == "one\n2\n2\nTHREE\n"
    assert output == ToolOutput(
        summary="edited a.py (2 replacements)",
        content="edited a.py (2 replacements)\n"
        "      1\tone\n-     2\ttwo\n-     3\tthree\n"
        "+     2\t2\n+     3\t2\n+     4\tTHREE",
        referenced_files=(f"{folder}/a.py",),
    )


async def test_nothing_is_changed_when_one_edit_fails(
    tool: EditFile, folder: Path
) -> None:
    (folder / "a").write_text("one\ntwo\n")

    message = await refusal(
        tool, path="a", edits=[edit("one", "1"), edit("three", "3")]
    )

    assert message.startswith(
        "nothing was changed: edit 2 of 2: old_text is not in the file."
    )
    assert (folder / "a").read_text() == "one\ntwo\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"\xef\xbb\xbfone\r\ntwo\r\n", b"\xef\xbb\xbf1\r\n1\r\ntwo\r\n"),
        ("one\r\ntwo".encode("utf-16"), "1\r\n1\r\ntwo".encode("utf-16")),
        (
            b"\xfe\xff" + "one\n".encode("utf-16-be"),
            b"\xfe\xff" + "1\n1\n".encode("utf-16-be"),
        ),
        (b"one caf\xe9\n", b"1\n1 caf\xe9\n"),
    ],
)
async def test_mark_encoding_line_ends_and_odd_bytes_are_kept(
    tool: EditFile, folder: Path, before: bytes, after: bytes
) -> None:
    (folder / "a").write_bytes(before)

    await run(tool, path="a", edits=[edit("one", "1\n1")])

    assert (folder / "a").read_bytes() == after


async def test_what_cannot_be_edited_is_refused(tool: EditFile, folder: Path) -> None:
    (folder / "binary").write_bytes(b"a\0b")
    (folder / "utf-16").write_bytes(b"\xff\xfea")
    with (folder / "huge").open("wb") as file:
        file.truncate(30_000_000)
    os.mkfifo(folder / "fifo")
    edits = [edit("a", "b")]

    messages = [
        await refusal(tool, path=path, edits=edits)
        for path in ("binary", "utf-16", "huge", "fifo", "gone", "../a")
    ]

    assert messages == [
        "binary is no text (binary)",
        (
            "utf-16 is broken utf-16-le: 'utf-16-le' codec can't decode byte 0x61 in "
            "position 0: truncated data"
        ),
        "huge is too large to edit (30000000 bytes, at most 20971520)",
        "fifo is a FIFO, not a regular file",
        "no such file: gone",
        f"{folder.parent}/a lies outside of the folders you may read: {folder}",
    ]


async def test_a_file_that_may_only_be_read_is_not_edited(
    tmp_path: Path, folder: Path
) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/a").write_text("one")
    scope = Scope([tmp_path / "lib"], [folder], folder)

    message = await refusal(
        EditFile(scope, trio.Lock()), path="../lib/a", edits=[edit("one", "two")]
    )

    scope.close()
    assert message == (
        f"{tmp_path}/lib/a lies outside of the folders you may write: {folder}"
    )


async def test_edits_that_cancel_each_other_out_are_refused(
    tool: EditFile, folder: Path
) -> None:
    (folder / "a").write_text("one")

    message = await refusal(tool, path="a", edits=[edit("one", "1"), edit("1", "one")])

    assert message == "together the edits change nothing; the file is as it was"


async def test_edits_of_one_batch_do_not_lose_each_other(
    tool: EditFile, folder: Path
) -> None:
    (folder / "a").write_text("".join(f"<{n}>\n" for n in range(30)))

    async def one(number: int) -> None:
        await run(tool, path="a", edits=[edit(f"<{number}>", f"[{number}]")])

    async with trio.open_nursery() as nursery:
        for number in range(30):
            nursery.start_soon(one, number)

    assert (folder / "a").read_text() == "".join(f"[{n}]\n" for n in range(30))


class BusyDisk(Scope):
    """A scope in which somebody else writes a file just after it was read."""

    def open_read(self, path: str) -> Opened:
        opened = super().open_read(path)
        Path(opened.path).write_text("somebody else's work")
        return opened


async def test_a_file_that_somebody_else_changed_meanwhile_is_left(
    folder: Path,
) -> None:
    (folder / "a").write_text("one")
    scope = BusyDisk([], [folder], folder)

    with pytest.raises(ToolError):
        await run(EditFile(scope, trio.Lock()), path="a", edits=[edit("work", "x")])

    scope.close()
    assert (folder / "a").read_text() == "somebody else's work"
