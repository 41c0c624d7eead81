"""Secrets taken out of what leaves the machine: a pure function of the text.

Works on text and on JSON alike: what is replaced never holds a quote or a
backslash, so JSON stays JSON. What no pattern can know (a password in prose) stays.
"""

import re
from collections.abc import Iterable

MARK = "[redacted]"

_START = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrtbf]))"
"""Where a key may begin: at a boundary, or behind an escape of JSON's."""

_KEYS = re.compile(
    _START
    + r"""(?:
      sk-(?:ant-|proj-|or-|svcacct-|admin-)?[A-Za-z0-9_-]{16,}  # Anthropic, OpenAI, …
    | (?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{20,}      # GitHub
    | github_pat_[A-Za-z0-9_]{20,}
    | glpat-[A-Za-z0-9_-]{16,}                      # GitLab
    | (?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])      # AWS
    | AIza[A-Za-z0-9_-]{30,}                        # Google
    | xox[abeoprs]-[A-Za-z0-9-]{10,}                # Slack
    | hf_[A-Za-z0-9]{20,}                           # Hugging Face
    | npm_[A-Za-z0-9]{30,}
    | pypi-[A-Za-z0-9_-]{40,}
    | (?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}      # Stripe
    | gsk_[A-Za-z0-9]{20,}                          # Groq
    | xai-[A-Za-z0-9]{20,}
    | eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}  # JSON Web Tokens
    )""",
    re.VERBOSE,
)
_BEARER = re.compile(r"(?i)\b(Bearer|Basic)(\s+)[A-Za-z0-9._~+/=-]{16,}")
_HEADER = re.compile(
    r"""(?i)\b(x-api-key|api-key|x-goog-api-key)(\\?["']?\s*:\s*\\?["']?)[A-Za-z0-9._~+/=-]{8,}"""
)
_ASSIGNED = re.compile(
    _START + r"""(?=[A-Z0-9_]*?(?:API_?KEY|SECRET|TOKEN|PASSWORD|PASSWD))"""
    r"""([A-Z][A-Z0-9_]*+)(=\\?["']?)[^\s"'\\$<>{}()\[\],;]{8,}"""
)
"""As in a shell or an .env file; names in capitals only, or code would suffer."""
_IN_ADDRESS = re.compile(
    r"""(?i)\b([a-z][a-z0-9+.-]{1,20}://[^\s/:@"'\\]{0,64}:)"""
    r"""[^\s/:@"'\\$<>{}]{3,128}(?=@)"""
)
"""The password of scheme://user:password@host."""
_PRIVATE_KEY = re.compile(
    r"-----BEGIN ([A-Z ]{0,40}PRIVATE KEY)-----"
    r"(?:[A-Za-z0-9+/=\s\\:,]++|-(?!----))*-----END \1-----"
)
"""What is within never begins another, and can be read in one way alone, so that
each text is looked at once."""
SHORTEST = 8
"""Characters of a value that is looked for: a shorter one is in every text."""


class Redaction:
    """Replaces what looks like a key, and the *values* that are known to be secret."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        found = {value for value in values if len(value) >= SHORTEST}
        escaped = sorted(map(re.escape, found), key=len, reverse=True)
        self._values = re.compile("|".join(escaped)) if escaped else None
        self.count = 0
        """How many were replaced so far."""

    def __call__(self, text: str) -> str:
        if self._values is not None:
            text = self._replaced(self._values, MARK, text)
        text = self._replaced(_PRIVATE_KEY, MARK, text)
        text = self._replaced(_KEYS, MARK, text)
        text = self._replaced(_BEARER, rf"\1\2{MARK}", text)
        text = self._replaced(_HEADER, rf"\1\2{MARK}", text)
        text = self._replaced(_IN_ADDRESS, rf"\1{MARK}", text)
        return self._replaced(_ASSIGNED, rf"\1\2{MARK}", text)

    def _replaced(self, pattern: re.Pattern[str], by: str, text: str) -> str:
        text, count = pattern.subn(by, text)
        self.count += count
        return text
