from pathlib import Path

from msgspec.structs import replace

from pod.check import Facts
from pod.check_facts import gather
from pod.load_manifest import Loaded, load
from pod.places import Place


def facts(loaded: Loaded, cwd: Path) -> Facts:
    return gather(
        loaded,
        cwd=cwd,
        state_dir=cwd / "state",
        window=1000,
        unpriced=("m",),
    )


def test_roots_are_in_the_working_folder_and_files_beside_the_manifest(
    tmp_path: Path,
) -> None:
    tmp_path = tmp_path.resolve()
    pods, work = tmp_path / "pods", tmp_path / "work"
    pods.mkdir()
    work.mkdir()
    (pods / "t.py").write_text("")
    (pods / "pod.toml").write_text(
        "prompt.system_file = 'p.md'\n"
        "tools.python = ['t.py:f']\n"
        "session.dir = 'log'\n"
        "model.context_window = 5\n"
        "[permissions]\n"
        "read_roots = ['.', '../pods/t.py']\n"
    )

    gathered = facts(load(Path("../pods/pod.toml"), [], work), work)

    assert gathered == Facts(
        read_roots=(
            Place(".", str(work), "folder"),
            Place("../pods/t.py", str(pods / "t.py"), "file"),
        ),
        write_roots=(Place(".", str(work), "folder"),),
        session_dir=Place("log", str(pods / "log"), "missing"),
        manifest=Place("pod.toml", str(pods / "pod.toml"), "file"),
        system_file=Place("p.md", str(pods / "p.md"), "missing"),
        python=(Place("t.py", str(pods / "t.py"), "file"),),
        window=5,
        unpriced=("m",),
        steps=gathered.steps,
    )
    assert gathered.steps[-1] == str(pods / "pod.toml")


def test_without_a_manifest_the_given_facts_count(tmp_path: Path) -> None:
    tmp_path = tmp_path.resolve()

    gathered = facts(load(None, [], tmp_path), tmp_path)

    state = tmp_path / "state"
    assert gathered.session_dir == Place(str(state), str(state), "missing")
    assert (gathered.manifest, gathered.system_file, gathered.python) == (
        None,
        None,
        (),
    )
    assert gathered.window == 1000


def test_symlinks_are_followed_so_that_none_hides_a_place(tmp_path: Path) -> None:
    tmp_path = tmp_path.resolve()
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "loop").symlink_to("loop")
    loaded = load(
        None,
        [f'permissions.read_roots=["link/..", "link/a", "loop", "{"x" * 300}"]'],
        tmp_path,
    )

    gathered = facts(replace(loaded, folder=tmp_path), tmp_path)

    assert [(Path(place.path), place.kind) for place in gathered.read_roots] == [
        (tmp_path, "folder"),
        (tmp_path / "real" / "a", "missing"),
        (tmp_path / "loop", "missing"),
        (tmp_path / ("x" * 300), "missing"),
    ]


def test_roots_in_the_working_folder_that_a_link_leads_out_of_it_are_told(
    tmp_path: Path,
) -> None:
    tmp_path = tmp_path.resolve()
    work = tmp_path / "work"
    (work / "a").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (work / "in").symlink_to("a")
    (work / "data").symlink_to("../out")
    (work / "etc").symlink_to("/etc")
    roots = f'[".", "in", "data", "etc/ssl", "..", "{tmp_path}/out"]'

    for cwd in (work, _linked(tmp_path / "other", work)):
        loaded = load(None, [f"permissions.read_roots={roots}"], cwd)
        assert [place.name for place in facts(loaded, cwd).led_out] == [
            "data",
            "etc/ssl",
        ]


def _linked(path: Path, to: Path) -> Path:
    path.symlink_to(to)
    return path
