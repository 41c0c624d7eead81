"""The four packages are ours, and what they need is with them."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("pod", "worker", "tools", "prompts")


@pytest.mark.parametrize("package", PACKAGES)
def test_the_package_is_the_one_of_this_repository(package: str) -> None:
    module = importlib.import_module(package)

    assert module.__file__ is not None
    assert Path(module.__file__).parent == ROOT / package


def test_every_prompt_loads_and_says_something() -> None:
    from prompts import load

    names = [path.stem for path in (ROOT / "prompts").glob("*.md")]

    assert names
    assert all(load(name).strip() for name in names)


def test_no_file_names_a_registry_or_locks_versions_by_one() -> None:
    locks = {"uv.lock", "poetry.lock", "Pipfile.lock", "pdm.lock"}

    assert [path.name for path in ROOT.iterdir() if path.name in locks] == []
