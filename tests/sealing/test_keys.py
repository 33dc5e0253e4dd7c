"""Key rings: their bounds, and that no message about them contains a secret."""

from __future__ import annotations

import base64

import pytest
from loops import over

from subord.sealing.keys import KEYS_MAX, REVISION_MAX, KeyringError, key_of, keyring_of, new_key, parse, text_of

SECRETS = [bytes([number]) * 32 for number in range(1, KEYS_MAX + 2)]
WORDS = [base64.b64encode(secret).decode() for secret in SECRETS]


def test_a_ring_is_read_as_it_was_written() -> None:
    ring = keyring_of(key_of(SECRETS[0]), [key_of(SECRETS[1]), key_of(SECRETS[2])])
    assert parse(text_of(ring)) == ring
    assert ring.primary.secret == SECRETS[0]
    assert ring.revision == 0


@pytest.mark.parametrize("revision", [1, 2**32, REVISION_MAX - 1])
def test_a_revision_is_read_as_it_was_written(revision: int) -> None:
    ring = keyring_of(key_of(SECRETS[0]), revision=revision)
    assert parse(text_of(ring)) == ring
    assert ring.revision == revision


def test_no_ring_can_be_made_that_cannot_be_read() -> None:
    with pytest.raises(KeyringError, match="changed too often: write a new one without a revision"):
        keyring_of(key_of(SECRETS[0]), revision=REVISION_MAX)


def test_comments_and_empty_lines_are_ignored() -> None:
    assert parse(f"# ours\n\n  primary\t{WORDS[0]} # old\r\n#key x\n") == keyring_of(key_of(SECRETS[0]))


def test_new_keys_differ() -> None:
    assert len({new_key() for _ in range(10)}) == 10


def test_no_representation_contains_a_secret() -> None:
    key = key_of(SECRETS[0])
    ring = keyring_of(key)
    for text in (repr(key), str(key), f"{key}", repr(ring), f"{ring}"):
        assert key.name in text
        assert WORDS[0] not in text
        assert repr(SECRETS[0]) not in text


@over(
    ("text", "words"),
    [
        ("", "0 keys are marked primary"),
        (f"key {WORDS[0]}", "0 keys are marked primary"),
        (f"primary {WORDS[0]}\nprimary {WORDS[1]}", "2 keys are marked primary"),
        (f"primary {WORDS[0]}\nkey", "line 2: a line is `primary KEY`, `key KEY` or `revision NUMBER`"),
        (f"primary {WORDS[0]}\n\n# x\nsecondary {WORDS[1]}", "line 4: a line is"),
        (f"primary {WORDS[0]} {WORDS[1]}", "line 1: a line is"),
        (f"primary {WORDS[0][:-5]}", "line 1: a key is 32 bytes in base 64"),
        ("primary !!!!", "line 1: a key is 32 bytes"),
        ("\n".join([f"primary {WORDS[0]}", *(f"key {word}" for word in WORDS[1:])]), "9 keys are more than the 8"),
        *[
            (f"primary {WORDS[0]}\nrevision {word}", "line 2: a revision is a whole number below 2^62")
            for word in ("x", "-1", "1.5", "٣", "²", str(REVISION_MAX), "0" * 20 + "5", "9" * 5000)
        ],
        (f"primary {WORDS[0]}\nrevision", "line 2: a line is"),
        (f"primary {WORDS[0]}\nrevision 1 2", "line 2: a line is"),
        (f"primary {WORDS[0]}=", "line 1: a key is 32 bytes"),
        (f"primary {base64.b64encode(SECRETS[0][1:]).decode()}", "line 1: a key is 32 bytes"),
    ],
)
def test_errors_do_not_contain_the_secret(text: str, words: str) -> None:
    with pytest.raises(KeyringError) as caught:
        parse(text)
    assert words in str(caught.value)
    assert not any(word in str(caught.value) for word in WORDS)


def test_the_same_key_twice_is_one() -> None:
    assert len(parse(f"primary {WORDS[0]}\nkey {WORDS[0]}").keys) == 1
