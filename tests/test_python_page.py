"""The examples of docs/python.md, run as they stand."""

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from tests.tools.sandbox.tiers import some_bash

PAGE = Path(__file__).resolve().parents[1] / "docs" / "python.md"
TEXT = PAGE.read_text(encoding="utf-8")
(MANIFEST,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
EXAMPLES: list[tuple[str, str]] = re.findall(
    r"```python\n(.*?)```\n\n```text\n(.*?)```", TEXT, re.DOTALL
)
TITLES = [
    f"{number} {re.findall(r'## (.*)', TEXT[: TEXT.index(code)])[-1]}"
    for number, (code, _) in enumerate(EXAMPLES, 1)
]


def test_every_example_says_what_it_prints() -> None:
    assert len(EXAMPLES) == TEXT.count("```python\n") > 6


@pytest.mark.parametrize(("code", "printed"), EXAMPLES, ids=TITLES)
def test_an_example_does_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, printed: str
) -> None:
    text = f"{MANIFEST}\n{some_bash()}"
    (tmp_path / "pod.toml").write_text(text, encoding="utf-8")
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path)
    out = io.StringIO()

    with redirect_stdout(out):
        exec(compile(code, str(PAGE), "exec"), {"__name__": "__pod_example__"})

    assert out.getvalue() == printed
