import errno
import multiprocessing
import os
import resource
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from pod.entries import Known, Notice, RunEnd
from pod.errors import (
    DiskFull,
    LogFailed,
    NewerFormat,
    NotASession,
    SessionDamaged,
    SessionLocked,
)
from pod.log import RESERVE, NoLog, SessionLog, read_log
from tests.pod.faults import FaultyDisk, SlowDisk, SmallDisk, always, from_call, once
from tests.pod.logs import HEADER, chain, said, talk, written

LAST = RunEnd(
    seq=9,
    id="last",
    parent="e1",
    at="now",
    outcome="failed",
    reason="disk_full",
    exit_code=1,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions" / "s1.jsonl"


def test_a_log_is_created_for_its_owner_alone(path: Path) -> None:
    with SessionLog.create(path, HEADER) as log:
        log.append(talk(2))

        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.read_bytes() == written(talk(2))
    assert names(path.parent) == ["s1.jsonl"]


def test_a_file_that_is_there_is_never_created_over(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"mine")

    with pytest.raises(FileExistsError):
        SessionLog.create(path, HEADER)

    assert path.read_bytes() == b"mine"


def test_a_log_whose_header_cannot_be_written_leaves_nothing(path: Path) -> None:
    with pytest.raises(DiskFull):
        SessionLog.create(path, HEADER, disk=SmallDisk(10))

    assert not path.exists()


def test_what_was_appended_is_there_again(path: Path) -> None:
    with SessionLog.create(path, HEADER) as log:
        log.append(talk(2))

    log, header, scan, notices = SessionLog.open(path)
    log.append(talk(3)[2:])
    log.close()
    log.close()

    assert (header, scan.entries, notices) == (HEADER, talk(2), ())
    assert read_log(path).entries == talk(3)


def test_a_second_opener_in_the_same_process_is_told_who_has_it(path: Path) -> None:
    with SessionLog.create(path, HEADER):
        with pytest.raises(SessionLocked, match=f"process {os.getpid()}:"):
            SessionLog.open(path)

        assert read_log(path).header == HEADER

    SessionLog.open(path).log.close()


def test_another_process_is_kept_out_until_the_owner_dies(path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from pod.log import SessionLog\n"
        "log = SessionLog.open(Path(sys.argv[1])).log; print('open', flush=True)\n"
        "sys.stdin.read()"
    )
    SessionLog.create(path, HEADER).close()
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as owner:
        assert owner.stdout
        assert owner.stdout.readline() == b"open\n"

        with pytest.raises(SessionLocked, match=f"process {owner.pid}:"):
            SessionLog.open(path)
        owner.kill()

    SessionLog.open(path).log.close()


def test_a_torn_tail_is_set_aside_behind_earlier_ones(path: Path) -> None:
    SessionLog.create(path, HEADER).close()
    whole = written([])
    aside = path.with_name("s1.jsonl.torn")

    for tail in (b'{"type":"it', b"\0\0\xe2\x80"):
        path.write_bytes(whole + tail)
        log, _, scan, notices = SessionLog.open(path)
        log.close()

        assert scan.torn == (len(whole), len(tail))
        [notice] = notices
        assert f"{len(tail)} bytes from byte {len(whole)}" in notice
        assert "s1.jsonl.torn" in notice
        assert path.read_bytes() == whole
    assert aside.read_bytes() == (
        b"\n--- 11 bytes from byte %d\n" % len(whole)
        + b'{"type":"it'
        + b"\n--- 4 bytes from byte %d\n" % len(whole)
        + b"\0\0\xe2\x80"
    )
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600


def test_the_next_entry_never_joins_a_fragment(path: Path) -> None:
    one, two = talk(2)
    data = written([one])
    for size in range(len(written([])), len(data) + 1, 4):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data[:size])
        log, _, scan, _ = SessionLog.open(path)
        log.append([two] if scan.entries else [one])
        log.close()

        assert path.read_bytes() in (written([one, two]), written([one]))
        assert not read_log(path).damage


def test_a_torn_tail_that_cannot_be_kept_stays(path: Path) -> None:
    path.parent.mkdir()
    data = written(talk(1)) + b"x" * 100
    path.write_bytes(data)

    with pytest.raises(DiskFull, match="cannot mend the end of"):
        SessionLog.open(path, disk=SmallDisk(50))

    assert path.read_bytes() == data
    SessionLog.open(path).log.close()
    assert path.read_bytes() == written(talk(1))


def test_damage_in_the_middle_stops_writing_but_not_reading(path: Path) -> None:
    path.parent.mkdir()
    one, two, three = talk(3)
    data = (
        written([one]) + b"\0" * 40 + b"\n" + written([two, three]).partition(b"\n")[2]
    )
    path.write_bytes(data)

    with pytest.raises(SessionDamaged) as raised:
        SessionLog.open(path)

    assert str(raised.value) == (
        f"{path} is damaged in line 3, at byte {len(written([one]))}: NUL bytes."
        " It can be read; before it can go on, run: pod session repair s1"
    )
    assert read_log(path).entries == talk(3)
    assert path.read_bytes() == data


@pytest.mark.parametrize(
    "data", [b"", b"hello\n", b"\x7fELF\0\0", b'{"type":"sess', b"{}\n" * 9, b"\n\n"]
)
def test_a_foreign_file_is_left_alone(path: Path, data: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(data)

    for opened in (SessionLog.open, read_log):
        with pytest.raises(NotASession, match=r"s1\.jsonl does not begin"):
            opened(path)

    assert path.read_bytes() == data
    assert names(path.parent) == ["s1.jsonl"]


def test_a_newer_log_is_left_alone(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b'{"type":"session","format":7,"id":"x"}\n{"type')

    with pytest.raises(NewerFormat, match="log format 7"):
        SessionLog.open(path)

    assert path.read_bytes().endswith(b'{"type')


def test_what_is_no_plain_file_is_refused(path: Path) -> None:
    SessionLog.create(path, HEADER).close()
    link, pipe = path.with_name("link.jsonl"), path.with_name("pipe.jsonl")
    link.symlink_to(path)
    os.mkfifo(pipe)

    for wrong in (link, pipe, path.parent):
        with pytest.raises(NotASession, match="not a plain file"):
            SessionLog.open(wrong)
    with pytest.raises(NotASession, match="not a plain file"):
        read_log(pipe)
    with pytest.raises(LogFailed, match="No such file"):
        SessionLog.open(path.with_name("none.jsonl"))


def test_a_log_that_was_replaced_while_it_was_opened_is_not_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SessionLog.create(path, HEADER).close()
    samestat = os.path.samestat

    def replaced(one: os.stat_result, other: os.stat_result) -> bool:
        path.rename(path.with_suffix(".old"))
        path.write_bytes(written([]))
        return samestat(one, path.stat())

    monkeypatch.setattr(os.path, "samestat", replaced)

    with pytest.raises(SessionLocked, match="was just replaced"):
        SessionLog.open(path)


def test_short_writes_are_completed(path: Path) -> None:
    disk = FaultyDisk(lambda *_: 0, most=7)

    with SessionLog.create(path, HEADER, disk=disk) as log:
        log.append(talk(3))

    assert path.read_bytes() == written(talk(3))
    assert disk.calls.count("write") > 30


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_leaves_whole_entries_and_goes_on_later(
    path: Path, code: int
) -> None:
    one, two, three = talk(3)
    full = False
    count = 0

    def fails(_: int, name: str) -> int:
        nonlocal count
        count += name == "write"
        return code if full and name == "write" and count > 3 else 0

    disk = FaultyDisk(fails, most=60)
    with SessionLog.create(path, HEADER, disk=disk) as log:
        log.append([one])
        full, count = True, 0

        with pytest.raises(DiskFull) as raised:
            log.append([two, three])
        assert raised.value.reason == "disk_full"
        assert path.read_bytes() == written([one])
        full = False
        log.append([two])

    assert path.read_bytes() == written([one, two])


def test_an_error_of_the_disk_is_told_and_taken_back(path: Path) -> None:
    one, two = talk(2)
    disk = FaultyDisk(lambda *_: 0, most=20)
    with SessionLog.create(path, HEADER, disk=disk) as log:
        log.append([one])
        calls = len(disk.calls)
        disk._fails = lambda n, name: errno.EIO if n == calls + 3 else 0

        with pytest.raises(LogFailed, match="Input/output error"):
            log.append([two])
        assert path.read_bytes() == written([one])
        log.append([two])

    assert path.read_bytes() == written([one, two])


async def test_a_log_that_cannot_be_cut_back_is_poisoned(path: Path) -> None:
    disk = FaultyDisk(lambda *_: 0, most=20)
    with SessionLog.create(path, HEADER, disk=disk) as log:
        calls = len(disk.calls)
        disk._fails = lambda n, _: errno.EIO if n >= calls + 2 else 0

        with pytest.raises(LogFailed):
            log.append(talk(1))
        disk._fails = lambda *_: 0

        with pytest.raises(LogFailed, match="nor cut back"):
            log.append(talk(1))
        with pytest.raises(LogFailed, match="nor cut back"):
            await log.commit()
    opened = SessionLog.open(path)
    opened.log.close()
    assert opened.scan.entries == []
    assert opened.scan.torn


async def test_a_log_whose_sync_failed_is_poisoned(path: Path) -> None:
    disk = FaultyDisk(lambda *_: 0)
    with SessionLog.create(path, HEADER, disk=disk) as log:
        disk._fails = once("sync", errno.EIO)
        log.append(talk(1))

        with pytest.raises(LogFailed, match="cannot sync"):
            await log.commit()

        syncs = disk.calls.count("sync")
        for _ in range(2):
            with pytest.raises(LogFailed, match="could not be synced"):
                await log.commit()
        with pytest.raises(LogFailed, match="could not be synced"):
            log.append(talk(2)[1:])
        assert disk.calls.count("sync") == syncs


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_each_call_that_fails_leaves_whole_entries(path: Path, code: int) -> None:
    """Whatever call fails, and all after it: what was acknowledged is there."""
    entries = talk(4)
    for fatal in range(1, 40):
        path.unlink(missing_ok=True)
        disk = FaultyDisk(from_call(fatal, code), most=90)
        acknowledged: list[Known] = []
        try:
            with SessionLog.create(path, HEADER, disk=disk) as log:
                for entry in entries:
                    log.append([entry])
                    acknowledged.append(entry)
        except LogFailed:
            pass

        if not path.exists():
            assert not acknowledged
            continue
        opened = SessionLog.open(path)
        opened.log.close()
        assert opened.scan.entries[: len(acknowledged)] == acknowledged


async def test_commits_that_wait_together_share_one_sync(path: Path) -> None:
    disk = SlowDisk()
    disk.go.release()
    with SessionLog.create(path, HEADER, disk=disk) as log:
        done: list[str] = []

        async def write(n: int) -> None:
            log.append(talk(n)[n - 1 :])
            await log.commit()
            done.append(f"e{n}")

        disk.started.acquire()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write, 1)
            await trio.to_thread.run_sync(disk.started.acquire)
            for n in (2, 3, 4):  # these come while the first sync is on its way
                nursery.start_soon(write, n)
            await wait_all_tasks_blocked()
            assert done == []
            disk.go.release()
            await trio.to_thread.run_sync(disk.started.acquire)
            assert done == ["e1"]
            disk.go.release()

        assert sorted(done) == ["e1", "e2", "e3", "e4"]
        assert disk.syncs == 3  # one of them the header's
        await log.commit()
        assert disk.syncs == 3


async def test_a_commit_is_not_cancelled_half_way(path: Path) -> None:
    disk = SlowDisk()
    disk.go.release()
    with SessionLog.create(path, HEADER, disk=disk) as log:
        disk.started.acquire()
        log.append(talk(1))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.commit)
            await trio.to_thread.run_sync(disk.started.acquire)
            nursery.cancel_scope.cancel()
            disk.go.release()

        assert disk.syncs == 2


async def test_flush_syncs_nothing_but_tells_of_poison(path: Path) -> None:
    disk = FaultyDisk(lambda *_: 0)
    with SessionLog.create(path, HEADER, durability="flush", disk=disk) as log:
        log.append(talk(1))
        await log.commit()
        assert disk.calls.count("sync") == 1  # the header's

        disk._fails = lambda *_: errno.EIO
        with pytest.raises(LogFailed):
            log.append(talk(1))
        with pytest.raises(LogFailed):
            await log.commit()


def test_last_words_get_the_room_that_was_held(path: Path) -> None:
    reserve = path.with_name("s1.jsonl.reserve")
    with SessionLog.create(path, HEADER) as log:
        assert reserve.stat().st_size == RESERVE
        assert reserve.stat().st_blocks * 512 >= RESERVE
        disk = SmallDisk(0)
        log._disk = disk
        with pytest.raises(DiskFull):
            log.append([LAST])

        disk.room = RESERVE  # what giving it up will free
        log.last_words([LAST])
        assert not reserve.exists()
        log.append(talk(1))
        assert reserve.exists()
    assert not reserve.exists()


def test_a_log_without_room_for_a_reserve_works(path: Path) -> None:
    path.parent.mkdir()
    path.with_name("s1.jsonl.reserve").mkdir()

    with SessionLog.create(path, HEADER) as log:
        log.append(talk(1))
        log.last_words(talk(2)[1:])

    assert path.read_bytes() == written(talk(2))


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1M", "pod-test", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"cannot mount a tmpfs: {error}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill(folder: Path) -> None:
    with (folder / "ballast").open("wb", buffering=0) as out:
        for size in (65536, 512):
            try:
                while out.write(bytes(size)):
                    pass
            except OSError:
                pass


def test_a_file_system_that_fills_up(tiny: Path) -> None:
    path = tiny / "s1.jsonl"
    big = "x" * 30_000
    with SessionLog.create(path, HEADER) as log:
        log.append(chain(said(big)))
        fill(tiny)
        for entry in chain(*[said(big)] * 50)[1:]:
            try:
                log.append([entry])
            except DiskFull as error:
                assert "No space left" in str(error)  # noqa: PT017  one of many appends
                break
        whole = read_log(path)
        assert (whole.torn, whole.damage) == (None, ())

        words = chain(*[Notice(message="y" * 20_000)] * (len(whole.entries) + 1))[-1:]
        log.last_words(words)
        (tiny / "ballast").unlink()
        more = chain(*[said(big)] * (len(whole.entries) + 2))[-1:]
        log.append(more)

    assert read_log(path).entries == [*whole.entries, *words, *more]
    assert read_log(path).damage == ()


def _write_until_full(path: Path) -> None:
    with SessionLog.open(path).log as log:
        size = path.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 1000, size + 1000))
        log.append(talk(1))
        try:
            log.append(chain(said("a"), said("x" * 5000))[1:])
        except DiskFull:
            sys.exit(7)


def test_a_limit_on_the_files_size_is_a_full_disk(path: Path) -> None:
    SessionLog.create(path, HEADER).close()

    child = multiprocessing.get_context("spawn").Process(
        target=_write_until_full, args=[path]
    )
    child.start()
    child.join()

    assert child.exitcode == 7
    assert path.read_bytes() == written(talk(1))


def test_a_disk_that_takes_nothing_is_an_error(path: Path) -> None:
    disk = FaultyDisk(lambda *_: 0)
    with SessionLog.create(path, HEADER, disk=disk) as log:
        disk._most = 0

        with pytest.raises(LogFailed, match="nothing was written"):
            log.append(talk(1))


async def test_a_closed_log_says_so(path: Path) -> None:
    log = SessionLog.create(path, HEADER, disk=FaultyDisk(always("none", 0)))
    log.close()

    with pytest.raises(LogFailed, match="is closed"):
        log.append(talk(1))


async def test_no_log_keeps_nothing(tmp_path: Path) -> None:
    log = NoLog()

    log.append(talk(1))
    log.last_words(talk(1))
    await log.commit()
    log.close()

    assert names(tmp_path) == []
