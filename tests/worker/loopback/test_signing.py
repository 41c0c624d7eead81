from hypothesis import given, settings, strategies as st

from worker.loopback.signing import check, check_sealed, seal, sign


@settings(max_examples=30)
@given(st.text(), st.text(), st.binary())
def test_a_signature_is_valid_for_its_own_text_only(
    words: str, other: str, key: bytes
) -> None:
    signature = sign(key, "m", words)

    assert check(key, "m", words, signature) == "valid"
    assert check(key, "m", other, signature) == (
        "valid" if other == words else "changed"
    )
    assert check(key, "another model", words, signature) == "foreign"
    assert check(key + b"another key", "m", words, signature) == "foreign"


@settings(max_examples=50)
@given(st.text())
def test_what_never_was_a_signature_is_foreign(signature: str) -> None:
    assert check(b"k", "m", "words", signature) == "foreign"
    assert check_sealed(b"k", "m", signature) == "foreign"


def test_a_sealed_payload_is_known_again() -> None:
    data = seal(b"k", "m", "päyload")

    assert check_sealed(b"k", "m", data) == "valid"
    assert check_sealed(b"k", "m2", data) == "foreign"
