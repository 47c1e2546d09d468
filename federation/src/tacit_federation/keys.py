"""Signing keys: Ed25519, one key file for each party, never sent anywhere.

Every signature is over a *domain* ("tacit-study/1") and a text, so that what was signed as one
thing never passes for another.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tacit._files import PathLike, write_atomically
from tacit.errors import InvalidArgument, Refused

SECRET = 0o600
"""Permission of whatever only its owner may read."""
_KEY_DIGITS, _SIGNATURE_DIGITS = 64, 128


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A party's key pair; others know its public half.

    Parameters
    ----------
    public : str, 64 hexadecimal digits, as in studies and policies
    _private : Ed25519PrivateKey, never shown

    Examples
    --------
    >>> key = SigningKey.generate()
    >>> check_signature(key.public, "an-example/1", "yes", key.sign("an-example/1", "yes"))
    """

    public: str
    _private: Ed25519PrivateKey = field(repr=False)

    @classmethod
    def generate(cls) -> SigningKey:
        """Return a new key, from the operating system's randomness.

        Returns
        -------
        SigningKey
        """
        return cls._of(Ed25519PrivateKey.generate())

    @classmethod
    def _of(cls, private: Ed25519PrivateKey) -> SigningKey:
        return cls(private.public_key().public_bytes_raw().hex(), private)

    @classmethod
    def open(cls, path: PathLike) -> SigningKey:
        """Read a key file.

        Parameters
        ----------
        path : path, written by `write`

        Returns
        -------
        SigningKey
        """
        try:
            private = serialization.load_pem_private_key(Path(path).read_bytes(), password=None)
        except (TypeError, ValueError):
            private = None
        if not isinstance(private, Ed25519PrivateKey):
            raise InvalidArgument(f"Expected {os.fspath(path)!r} to be a signing key of tacit.")
        return cls._of(private)

    def write(self, path: PathLike) -> None:
        """Write the key to a file that only its owner may read.

        Parameters
        ----------
        path : path, replaced if it exists
        """
        write_atomically(path, private_pem(self._private), SECRET)

    def sign(self, domain: str, text: str) -> str:
        """Return a signature.

        Parameters
        ----------
        domain : str, kind of text
        text : str

        Returns
        -------
        str, 128 hexadecimal digits
        """
        return self._private.sign(_message(domain, text)).hex()


def private_pem(key: object) -> bytes:
    """Return a private key as unencrypted PEM: the file's permission protects it."""
    return key.private_bytes(  # type: ignore[attr-defined,no-any-return]
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _message(domain: str, text: str) -> bytes:
    return f"{domain}\n{text}".encode()


def is_key(text: object) -> bool:
    """Whether it has the form of a public key."""
    return isinstance(text, str) and len(text) == _KEY_DIGITS and is_hex(text)


def is_hex(text: str) -> bool:
    """Whether a text is lower-case hexadecimal."""
    return bool(text) and set(text) <= set("0123456789abcdef")


def check_signature(public: str, domain: str, text: str, signature: object) -> None:
    """Raise `Refused` unless the signature is that public key's, over that domain and text."""
    written = isinstance(signature, str) and len(signature) == _SIGNATURE_DIGITS
    try:
        if not (is_key(public) and written and is_hex(str(signature))):
            raise InvalidSignature
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        key.verify(bytes.fromhex(str(signature)), _message(domain, text))
    except (InvalidSignature, ValueError):
        raise Refused(
            f"Expected a signature of key {fingerprint(public)} over {domain!r}: it does not hold."
        ) from None


def fingerprint(public: str) -> str:
    """Return the beginning of a key or hash, in groups, to be compared by people.

    >>> fingerprint("ab12cd34" * 8)
    'ab12 cd34 ab12 cd34'
    """
    return " ".join(str(public)[place : place + 4] for place in range(0, 16, 4))
