"""The file system that bubblewrap is told to make."""

from hypothesis import given, strategies as st
from msgspec.structs import replace

from tools.sandbox.bubblewrap import Mount, Private, arguments, mounts
from tools.sandbox.policy import Link, Pins, Policy, Surroundings, is_within

PRIVATE = Private("/private/tmp", "/private/home")
AROUND = Surroundings(
    home="/home/me",
    folders=("/usr", "/etc"),
    links=(Link("/bin", "usr/bin"),),
    programs=("/home/me/.pyenv",),
)
NO_PINS = Pins()
POLICY = Policy(cwd="/home/me/work", write=("/home/me/work",))


def placed(
    policy: Policy = POLICY, around: Surroundings = AROUND, pins: Pins = NO_PINS
) -> dict[str, Mount]:
    return {mount.path: mount for mount in mounts(policy, around, PRIVATE, pins)}


def test_a_command_sees_the_system_its_folders_and_nothing_else() -> None:
    assert mounts(POLICY, AROUND, PRIVATE, Pins()) == [
        Mount("symlink", "/bin", "usr/bin"),
        Mount("dev", "/dev"),
        Mount("ro-bind", "/etc", "/etc"),
        Mount("bind", "/home/me", "/private/home"),
        Mount("ro-bind", "/home/me/.pyenv", "/home/me/.pyenv"),
        Mount("bind", "/home/me/work", "/home/me/work"),
        Mount("proc", "/proc"),
        Mount("tmpfs", "/run"),
        Mount("bind", "/tmp", "/private/tmp"),
        Mount("ro-bind", "/usr", "/usr"),
        Mount("symlink", "/var/tmp", "/tmp"),
    ]


def test_the_arguments_drop_what_there_is_to_drop() -> None:
    said = arguments(POLICY, AROUND, PRIVATE, Pins(), seccomp=7)

    for words in (
        ["--die-with-parent"],
        ["--new-session"],
        ["--unshare-pid"],
        ["--unshare-ipc"],
        ["--unshare-net"],
        ["--cap-drop", "ALL"],
        ["--remount-ro", "/"],
        ["--seccomp", "7", "--chdir", "/home/me/work", "--"],
    ):
        assert " ".join(words) in " ".join(said)


def test_the_network_is_there_only_on_request() -> None:
    said = arguments(
        replace(POLICY, network="host"), AROUND, PRIVATE, Pins(), seccomp=7
    )

    assert "--unshare-net" not in said


def test_the_kernels_settings_are_read_only_for_root() -> None:
    around = replace(AROUND, is_root=True)

    said = arguments(POLICY, around, PRIVATE, Pins(), seccomp=7)

    assert "--remount-ro /proc" in " ".join(said)


def test_what_is_roots_alone_is_covered() -> None:
    around = replace(AROUND, secret=("/etc/shadow",), secret_folders=("/etc/private",))

    there = placed(around=around)

    assert there["/etc/shadow"] == Mount("ro-bind", "/etc/shadow", "/dev/null")
    assert there["/etc/private"] == Mount("tmpfs", "/etc/private")


def test_a_read_root_in_a_write_root_stays_writable() -> None:
    policy = replace(POLICY, read=("/home/me/work/data", "/data"))

    there = placed(policy)

    assert "/home/me/work/data" not in there
    assert there["/data"] == Mount("ro-bind", "/data", "/data")


def test_a_write_root_in_a_read_root_is_writable() -> None:
    order = [
        m.path for m in mounts(replace(POLICY, read=("/",)), AROUND, PRIVATE, Pins())
    ]

    assert order.index("/") < order.index("/home/me/work")


def test_a_write_root_in_another_is_not_mounted_again() -> None:
    """A command could put a symbolic link in its place, for the next one."""
    policy = replace(POLICY, write=("/home/me/work", "/home/me/work/sub"))

    assert "/home/me/work/sub" not in placed(policy)


def test_folders_between_a_private_one_and_what_is_put_in_it_are_held() -> None:
    """Else a command could put a link in their place, for bubblewrap to follow."""
    policy = Policy(cwd="/home/me/not/there", read=("/tmp/a/b/c",), write=())

    mounted = placed(policy)

    assert [mounted[path] for path in ("/tmp/a", "/tmp/a/b", "/tmp/a/b/c")] == [
        Mount("bind", "/tmp/a", "/private/tmp/a"),
        Mount("bind", "/tmp/a/b", "/private/tmp/a/b"),
        Mount("ro-bind", "/tmp/a/b/c", "/tmp/a/b/c"),
    ]
    assert [mounted[f"/home/me/not{more}"] for more in ("", "/there")] == [
        Mount("bind", "/home/me/not", "/private/home/not"),
        Mount("bind", "/home/me/not/there", "/private/home/not/there"),
    ]


def test_a_granted_home_is_no_private_one() -> None:
    there = placed(replace(POLICY, write=("/home/me",)))

    assert there["/home/me"] == Mount("bind", "/home/me", "/home/me")


def test_where_all_is_granted_nothing_of_the_system_is_read_only() -> None:
    policy = replace(POLICY, write=("/",))

    said = arguments(policy, AROUND, PRIVATE, Pins(), seccomp=7)

    assert "--ro-bind" not in said
    assert "--remount-ro / " not in " ".join(said)


def test_a_working_folder_that_nothing_grants_is_an_empty_one() -> None:
    there = placed(replace(POLICY, cwd="/elsewhere"))

    assert there["/elsewhere"] == Mount("dir", "/elsewhere")


def test_what_is_pinned_comes_last_and_cannot_be_moved() -> None:
    git = "/home/me/work/.git"
    pins = Pins(held=(git,), read_only=(f"{git}/config", f"{git}/hooks"))

    order = [(m.kind, m.path) for m in mounts(POLICY, AROUND, PRIVATE, pins)]

    at = order.index(("bind", git))
    assert order[at - 1 : at + 3] == [
        ("bind", "/home/me/work"),
        ("bind", git),
        ("ro-bind", f"{git}/config"),
        ("ro-bind", f"{git}/hooks"),
    ]


FOLDERS = st.lists(st.sampled_from("abc"), max_size=4).map(
    lambda parts: "/" + "/".join(parts)
)
ROOTS = st.lists(FOLDERS, max_size=4, unique=True).map(tuple)


@given(read=ROOTS, write=ROOTS.filter(bool), home=FOLDERS)
def test_whatever_the_roots_what_may_be_written_can_be(
    read: tuple[str, ...], write: tuple[str, ...], home: str
) -> None:
    """The last mount at or above a write root is its own, or one it lies in."""
    policy = Policy(cwd=write[0], read=read, write=write)
    around = replace(AROUND, home=home)

    order = mounts(policy, around, PRIVATE, Pins())

    for root in write:
        above = [m for m in order if m.path == "/" or is_within(root, m.path)]
        assert above[-1].kind == "bind"
        assert above[-1].source in write


@given(read=ROOTS, write=ROOTS, home=FOLDERS)
def test_a_folder_is_mounted_before_what_lies_in_it(
    read: tuple[str, ...], write: tuple[str, ...], home: str
) -> None:
    policy = Policy(cwd="/", read=read, write=write)
    paths = [
        mount.path
        for mount in mounts(policy, replace(AROUND, home=home), PRIVATE, Pins())
    ]

    for at, path in enumerate(paths):
        assert not any(is_within(before, path) for before in paths[:at])
