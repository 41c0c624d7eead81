from pathlib import Path

import pytest

from worker.client import Failure
from worker.keys import KEY, NO_KEY, find_key, missing_key, secrets_of, without

LOCAL = "http://127.0.0.1:8080"


def test_a_key_in_the_environment_is_found() -> None:
    env = {"ANTHROPIC_API_KEY": " sk-1\n"}

    assert find_key(env, None) == "sk-1"
    assert missing_key(env, None) is None


@pytest.mark.parametrize("env", [{}, {"ANTHROPIC_API_KEY": " "}])
def test_a_missing_key_is_said_with_the_variable_to_set(env: dict[str, str]) -> None:
    assert missing_key(env, None) == Failure(
        "auth",
        "no API key: set ANTHROPIC_API_KEY, or [model] base_url to a server",
    )
    assert missing_key(env, "https://api.anthropic.com/v1") is not None


def test_only_the_variable_the_manifest_names_counts() -> None:
    env = {"ANTHROPIC_API_KEY": "sk-1", "ANTHROPIC_AUTH_TOKEN": "t"}

    missing = missing_key(env, None, name="WORK_KEY")

    assert missing is not None
    assert "set WORK_KEY" in missing.message
    assert find_key({"WORK_KEY": "sk-2"}, None, name="WORK_KEY") == "sk-2"


@pytest.mark.parametrize(
    "env",
    [
        {"ANTHROPIC_AUTH_TOKEN": "t"},
        {"ANTHROPIC_PROFILE": "work"},
        {
            "ANTHROPIC_FEDERATION_RULE_ID": "r",
            "ANTHROPIC_ORGANIZATION_ID": "o",
            "ANTHROPIC_IDENTITY_TOKEN": "t",
        },
    ],
)
def test_other_credentials_are_left_to_the_sdk(env: dict[str, str]) -> None:
    assert missing_key(env, None) is None
    assert find_key(env, None) is None
    assert find_key(env, LOCAL) is None


def test_half_a_federation_is_none() -> None:
    env = {"ANTHROPIC_FEDERATION_RULE_ID": "r", "ANTHROPIC_ORGANIZATION_ID": "o"}

    assert missing_key(env, None) is not None


def test_a_profile_file_is_left_to_the_sdk(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    config = tmp_path / ".config" / "anthropic"
    before = missing_key(env, None)

    (config / "configs").mkdir(parents=True)
    (config / "configs" / "work.json").write_text("{}")
    (config / "active_config").write_text("work\n")

    assert before is not None
    assert missing_key(env, None) is None


@pytest.mark.parametrize("env", [{}, {"ANTHROPIC_BASE_URL": LOCAL}])
def test_a_server_of_ones_own_needs_no_key(env: dict[str, str]) -> None:
    url = None if env else LOCAL

    assert missing_key(env, url) is None
    assert find_key(env, url) == NO_KEY


def test_a_host_that_only_looks_like_anthropics_is_foreign() -> None:
    assert missing_key({}, "https://anthropic.com.evil.example") is None
    assert missing_key({}, "https://eu.anthropic.com") is not None


@pytest.mark.parametrize("key", ["sk-1\nsk-2", "schl\u00fcssel", "sk\0"])
def test_a_key_with_impossible_characters_is_said_to_be_wrong(key: str) -> None:
    missing = missing_key({"ANTHROPIC_API_KEY": key}, None)

    assert missing is not None
    assert "ANTHROPIC_API_KEY holds characters" in missing.message
    assert key not in missing.message


KEY_TEXT = "sk-ant-0123456789"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("invalid key sk-ant-0123456789 for you", "invalid key [key] for you"),
        ("twice sk-ant-0123456789 sk-ant-0123456789", "twice [key] [key]"),
        ("cut off: sk-ant-01234 …", "cut off: [key] …"),
        ("cut off: sk-ant-01", "cut off: [key] …"),
        ("sk-ant- alone is nobody's", "sk-ant- alone is nobody's"),
        ("nothing here …", "nothing here …"),
    ],
)
def test_a_key_is_not_shown_whole_or_cut_off(text: str, shown: str) -> None:
    assert without(text, [KEY_TEXT]) == shown


def test_a_short_key_is_hidden_where_it_is_no_part_of_a_word() -> None:
    said = "claude-loopback knows no key loopback, nor loopback-2"

    assert without(said, ["loopback"]) == (
        "claude-loopback knows no key [key], nor loopback-2"
    )


def test_short_values_are_no_secrets() -> None:
    assert secrets_of({"ANTHROPIC_AUTH_TOKEN": "a-long-token"}, NO_KEY) == (
        "a-long-token",
    )
    assert secrets_of({KEY: KEY_TEXT}, KEY_TEXT) == (KEY_TEXT,)


def test_secrets_are_looked_for_without_the_blanks_around_them() -> None:
    env = {KEY: f"{KEY_TEXT}\n", "ANTHROPIC_AUTH_TOKEN": " a-long-token "}

    assert secrets_of(env, f"{KEY_TEXT}\n") == (KEY_TEXT, "a-long-token")
