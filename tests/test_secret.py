"""The looking for the key of the tests."""

from pathlib import Path

from tests.secret import leaks


def test_a_key_is_found_behind_a_hole_of_a_terabyte(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.write(b"x" * 10_000)
        file.seek(1 << 40)
        file.write(b"the secret-1234.")
    (tmp_path / "empty").touch()
    (tmp_path / "hole").touch()
    with (tmp_path / "hole").open("r+b") as file:
        file.truncate(1 << 40)
    (tmp_path / "small").write_text("secret-123")

    assert list(leaks(tmp_path, "secret-1234")) == [tmp_path / "huge"]
