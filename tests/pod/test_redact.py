"""What looks like a key does not leave the machine."""

import json
import time

import pytest
from hypothesis import given, strategies as st

from pod.redact import MARK, Redaction

KEYS = [
    "sk-ant-api03-" + "a1B2" * 10,
    "sk-proj-" + "a1B2" * 6,
    "ghp_" + "a1B2" * 9,
    "github_pat_" + "a1B2" * 9,
    "glpat-" + "a1B2" * 5,
    "AKIA" + "A1B2" * 4,
    "AIza" + "a1B2" * 9,
    "xoxb-1234567890-abcdef",
    "hf_" + "a1B2" * 8,
    "gsk_" + "a1B2" * 8,
    "eyJhbGciOiJ9.eyJzdWIiOiIx.c2lnbmF0dXJl",
]


@pytest.mark.parametrize("key", KEYS)
def test_a_key_is_replaced_wherever_it_stands(key: str) -> None:
    for text in (key, f"key: {key}.", f'"{key}"', f"line\n{key}\n", f"a={key}"):
        told = Redaction()(text)

        assert key not in told
        assert MARK in told


@pytest.mark.parametrize("key", KEYS)
def test_in_json_a_key_is_replaced_and_it_stays_json(key: str) -> None:
    line = json.dumps({"text": f'begin\n{key}\tand "{key}"', "n": [1, key]})

    told = Redaction()(line)

    assert key not in told
    assert json.loads(told)["n"] == [1, MARK]


def test_a_private_key_is_replaced_as_a_whole() -> None:
    body = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA PRIVATE KEY-----"

    assert Redaction()(f"x {body} y") == f"x {MARK} y"
    assert json.loads(Redaction()(json.dumps({"k": body}))) == {"k": MARK}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Authorization: Bearer abcdefghijklmnop1234", f"Authorization: Bearer {MARK}"),
        ("x-api-key: abcdefgh12345678", f"x-api-key: {MARK}"),
        ("export OPENAI_API_KEY=abcdefgh12", f"export OPENAI_API_KEY={MARK}"),
        ('DB_PASSWORD="hunter2hunter2"', f'DB_PASSWORD="{MARK}"'),
        ("PASSWORD=hunter2hunter2", f"PASSWORD={MARK}"),
        ("API_KEY=abcdefgh12", f"API_KEY={MARK}"),
        ("TOKEN_2=abcdefgh12", f"TOKEN_2={MARK}"),
        ("postgres://bob:hunter2@db:5432/x", f"postgres://bob:{MARK}@db:5432/x"),
        ("redis://:hunter2@db", f"redis://:{MARK}@db"),
    ],
)
def test_a_named_secret_loses_its_value_and_keeps_its_name(
    text: str, told: str
) -> None:
    assert Redaction()(text) == told


@pytest.mark.parametrize(
    "text",
    [
        "the task-force asked for a risk-averse disk-usage-of-many-things-report",
        "max_tokens = get_token(limit)",
        "API_KEY=$OTHER_KEY_NAME",
        "sk-learn",
        "https://user:${PASSWORD}@host/x",
        "https://host:8080/x and me@host",
        "a sha256 of 0123456789abcdef0123456789abcdef",
        "/usr/lib/python3/site-packages/anthropic/resources/messages",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert Redaction()(text) == text


def test_the_keys_of_this_pod_are_known_by_their_value() -> None:
    redaction = Redaction(["my odd key", "short"])

    assert redaction("it is my odd key, short") == f"it is {MARK}, short"
    assert redaction.count == 1


@pytest.mark.parametrize(
    "piece",
    ["-----BEGIN PRIVATE KEY-----", "TOKEN_", "eyJ", "sk-", "a://b:", "Basic ", "=\n"],
)
def test_a_text_made_to_be_slow_takes_linear_time(piece: str) -> None:
    def seconds_of(size: int) -> float:
        text = piece * (size // len(piece))
        started = time.process_time()
        Redaction()(text)
        return time.process_time() - started

    few, many = seconds_of(20_000), seconds_of(320_000)

    assert many < 50 * few + 0.05  # the square would be 256 times as much


@given(st.text(), st.sampled_from(KEYS))
def test_json_stays_json_whatever_is_around(text: str, key: str) -> None:
    line = json.dumps([text + " " + key, {key: text}])

    assert len(json.loads(Redaction()(line))) == 2
