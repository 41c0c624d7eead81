"""Finds the key for the API, or says what is missing before anything is sent."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from worker.client import Failure

KEY = "ANTHROPIC_API_KEY"
NO_KEY = "none"
"""Sent to a server that is not Anthropic's where no key is set: local ones ask
for none, and the others answer 401."""

SECRETS = (KEY, "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_IDENTITY_TOKEN")
"""Variables that hold a secret by which the SDK signs requests."""

HIDDEN = "[key]"
"""What stands in the place of a key."""

LEAST_SECRET = 8
"""Characters; a shorter value is no secret, and may be any word ("none")."""

LONG_SECRET = 16
"""Characters; a shorter one ("loopback") may be part of a word, and counts alone."""

_OTHER_WAYS = ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE")
_FEDERATION = ("ANTHROPIC_FEDERATION_RULE_ID", "ANTHROPIC_ORGANIZATION_ID")
_IDENTITY = ("ANTHROPIC_IDENTITY_TOKEN", "ANTHROPIC_IDENTITY_TOKEN_FILE")


def secrets_of(env: Mapping[str, str], key: str | None) -> tuple[str, ...]:
    """Return the values that must not be shown: *key* and those the SDK may send.

    Without the blanks around them, a line end say: what is sent has none.
    """
    found = [(key or "").strip(), *(env.get(name, "").strip() for name in SECRETS)]
    return tuple(dict.fromkeys(each for each in found if len(each) >= LEAST_SECRET))


def without(text: str, secrets: Sequence[str]) -> str:
    """Return *text* with none of *secrets* in it, also where one is cut off at its end."""
    for secret in secrets:
        if len(secret) < LONG_SECRET:
            alone = rf"(?<![\w-]){re.escape(secret)}(?![\w-])"
            text = re.sub(alone, HIDDEN, text)
            continue
        text = text.replace(secret, HIDDEN)
        whole = text.rstrip(" ….")
        for length in range(len(secret) - 1, LEAST_SECRET - 1, -1):
            if whole.endswith(secret[:length]):
                text = f"{whole[: len(whole) - length]}{HIDDEN} …"
                break
    return text


def find_key(
    env: Mapping[str, str], base_url: str | None, *, name: str = KEY
) -> str | None:
    """Return the key to send; None leaves it to the SDK (tokens, profiles)."""
    if key := env.get(name, "").strip():
        return key
    if is_foreign(env, base_url) and not _has_other_way(env):
        return NO_KEY
    return None


def missing_key(
    env: Mapping[str, str], base_url: str | None, *, name: str = KEY
) -> Failure | None:
    """Return why no request can be signed, None if one can.

    *name* is the variable the manifest names (``[model] api_key_env``); only
    the usual one leaves other credentials to the SDK. Looks for its profile
    files under the home folder.
    """
    key = env.get(name, "").strip()
    if key and not (key.isascii() and key.isprintable()):
        return Failure("auth", f"{name} holds characters that no key has: set it again")
    if key or is_foreign(env, base_url):
        return None
    if name == KEY and (_has_other_way(env) or _has_profile(env)):
        return None
    return Failure("auth", f"no API key: set {name}, or [model] base_url to a server")


def is_foreign(env: Mapping[str, str], base_url: str | None) -> bool:
    """Whether requests go to a server that is not Anthropic's own."""
    url = base_url or env.get("ANTHROPIC_BASE_URL") or ""
    host = (urlsplit(url).hostname or "") if url else "anthropic.com"
    return host != "anthropic.com" and not host.endswith(".anthropic.com")


def _has_other_way(env: Mapping[str, str]) -> bool:
    if any(env.get(name) for name in _OTHER_WAYS):
        return True
    return all(env.get(name) for name in _FEDERATION) and any(
        env.get(name) for name in _IDENTITY
    )


def _has_profile(env: Mapping[str, str]) -> bool:
    """Whether the SDK finds a profile file: the active one, or "default"."""
    folder = env.get("ANTHROPIC_CONFIG_DIR")
    home = env.get("HOME")
    if not folder and not home:
        return False
    config = Path(folder) if folder else Path(home or "") / ".config" / "anthropic"
    try:
        active = (config / "active_config").read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        active = ""
    try:
        return (config / "configs" / f"{active or 'default'}.json").is_file()
    except (OSError, ValueError):
        return False
