import pytest
from hypothesis import given, strategies as st

from tools.terminal import displayed


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ntext\n", "plain\ntext\n"),
        ("a\r\nb\r\n", "a\nb\n"),
        (" 10%\r 20%\r100%\ndone\n", "100%\ndone\n"),
        ("abc\rX", "Xbc"),
        ("50%\r", "50%"),
        ("downloading 9 of 9\r\x1b[Kdone", "done"),
        ("downloading 9 of 9\r\x1b[2Kdone", "done"),
        ("\x1b[32mgreen\x1b[0m\rred", "reden"),
        ("\r\r\r\n", "\n"),
    ],
)
def test_a_line_shows_its_last_state(text: str, shown: str) -> None:
    assert displayed(text) == shown


@given(st.text(alphabet="ab\r\n\x1b[K"))
def test_no_carriage_return_is_left_and_no_line_is_lost(text: str) -> None:
    shown = displayed(text)

    assert "\r" not in shown
    assert shown.count("\n") == text.count("\n")
