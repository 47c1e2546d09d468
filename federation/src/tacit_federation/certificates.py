"""Certificates: each server is its own authority, and admits whom it enrolled.

P-256. An authority lasts ten years, a member's certificate ninety days; it is renewed from day 60
on. They begin a day early, because clocks differ. Permissions are in the server's own table, by
fingerprint; the certificate itself names only the issuer, and whether it is a server or a client.
"""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tacit._files import write_atomically
from tacit.errors import InvalidArgument, Refused
from tacit_federation.keys import SECRET, private_pem

AUTHORITY_DAYS, LEAF_DAYS, RENEW_AFTER_DAYS = 3650, 90, 60
MOST_CSR_BYTES = 8 * 1024
_EARLY = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Authority:
    """One server's authority: a public certificate, pinned by sites, and a secret key."""

    certificate: x509.Certificate
    _key: ec.EllipticCurvePrivateKey = field(repr=False)

    @classmethod
    def create(cls, folder: Path, name: str) -> Authority:
        """Create an authority in a folder: `ca.key` (mode 0600) and `ca.pem`."""
        key, subject = _new_key(), _name(name)
        usage = _usage(signs_certificates=True)
        builder = _builder(subject, subject, key.public_key(), AUTHORITY_DAYS)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        made = cls(builder.add_extension(usage, True).sign(key, hashes.SHA256()), key)
        write_atomically(folder / "ca.key", private_pem(key), SECRET)
        write_atomically(folder / "ca.pem", made.pem)
        return made

    @classmethod
    def open(cls, folder: Path) -> Authority:
        """Read what `create` wrote."""
        key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise InvalidArgument(f"Expected {str(folder / 'ca.key')!r} to be an authority's key.")
        return cls(read_certificate((folder / "ca.pem").read_bytes()), key)

    @property
    def pem(self) -> bytes:
        """The certificate, public."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def issue_server(self, folder: Path, hosts: Sequence[str]) -> None:
        """Write a server's key and certificate for these names or addresses."""
        key = _new_key()
        names = x509.SubjectAlternativeName([_host(host) for host in hosts])
        leaf = self._issue(key.public_key(), hosts[0], ExtendedKeyUsageOID.SERVER_AUTH, names)
        write_atomically(folder / "server.key", private_pem(key), SECRET)
        write_atomically(folder / "server.pem", leaf.public_bytes(serialization.Encoding.PEM))

    def issue_client(self, csr: bytes, name: str) -> bytes:
        """Return a member's PEM certificate for a request's key; the request's name is ignored."""
        leaf = self._issue(read_request(csr), name, ExtendedKeyUsageOID.CLIENT_AUTH, None)
        return leaf.public_bytes(serialization.Encoding.PEM)

    def _issue(
        self,
        key: ec.EllipticCurvePublicKey,
        name: str,
        purpose: x509.ObjectIdentifier,
        names: x509.SubjectAlternativeName | None,
    ) -> x509.Certificate:
        builder = _builder(_name(name), self.certificate.subject, key, LEAF_DAYS)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        builder = builder.add_extension(_usage(signs_certificates=False), True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), True)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer, False)
        if names is not None:
            builder = builder.add_extension(names, False)
        return builder.sign(self._key, hashes.SHA256())


def new_request(folder: Path, name: str) -> bytes:
    """Write a new `tls.key`, or reuse it after an interruption, and return a request for it."""
    path = folder / "tls.key"
    if not path.exists():
        write_atomically(path, private_pem(_new_key()), SECRET)
    key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InvalidArgument(f"Expected {str(path)!r} to be a key that tacit made.")
    request = x509.CertificateSigningRequestBuilder().subject_name(_name(name))
    return request.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def read_request(csr: bytes) -> ec.EllipticCurvePublicKey:
    """Return the key of a request, which must be P-256 and sign it; else `InvalidArgument`."""
    try:
        if len(csr) > MOST_CSR_BYTES:
            raise ValueError
        request = x509.load_pem_x509_csr(csr)
        key = request.public_key()
        proper = isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1)
        if not proper or not request.is_signature_valid:
            raise ValueError
    except Exception:
        # Whatever a parser of foreign bytes raises is one refusal.
        raise InvalidArgument("Expected a certificate request of a P-256 key, as PEM.") from None
    assert isinstance(key, ec.EllipticCurvePublicKey)
    return key


def key_of_request(csr: bytes) -> str:
    """Return the SHA-256 of a request's key, which identifies a repeated request."""
    return _key_hash(read_request(csr))


def key_of_certificate(pem: bytes) -> str:
    """Return the same of a certificate."""
    key = read_certificate(pem).public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    return _key_hash(key)


def _key_hash(key: ec.EllipticCurvePublicKey) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(key.public_bytes(serialization.Encoding.DER, form)).hexdigest()


def read_certificate(pem: bytes) -> x509.Certificate:
    """Read one certificate."""
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError:
        raise InvalidArgument("Expected a certificate, as PEM.") from None


def certificate_hash(pem: bytes) -> str:
    """Return the SHA-256 of a certificate: its fingerprint."""
    return hashlib.sha256(
        read_certificate(pem).public_bytes(serialization.Encoding.DER)
    ).hexdigest()


def check_issued(pem: bytes, authority: bytes, now: float) -> None:
    """Raise `Refused`, with the reason, unless a certificate is this authority's and valid now.

    In TLS 1.3 a refused client sees a closed connection and no reason: it checks here first.
    """
    leaf, issuer = read_certificate(pem), read_certificate(authority)
    try:
        leaf.verify_directly_issued_by(issuer)
    except (InvalidSignature, TypeError, ValueError):
        raise Refused(
            "Expected this certificate to be issued by the server's authority; join again."
        ) from None
    moment = datetime.datetime.fromtimestamp(now, datetime.UTC)
    if not leaf.not_valid_before_utc <= moment <= leaf.not_valid_after_utc:
        raise Refused(
            f"Expected a certificate that is valid now: this one ended on "
            f"{leaf.not_valid_after_utc:%Y-%m-%d}; check the clock, or ask for a new invitation."
        )


def should_renew(pem: bytes, now: float) -> bool:
    """Whether a certificate is older than 60 days."""
    begun = read_certificate(pem).not_valid_before_utc + _EARLY
    return now > (begun + datetime.timedelta(days=RENEW_AFTER_DAYS)).timestamp()


def hosts_of(pem: bytes) -> list[str]:
    """Return the names and addresses of a server's certificate."""
    names = read_certificate(pem).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return [str(each.value) for each in names.value]


def server_context(folder: Path, *, clients: bool) -> ssl.SSLContext:
    """Return a server's TLS 1.3 context; with `clients`, only clients with a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    if clients:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(folder / "ca.pem")
    return context


def client_context(authority: bytes, folder: Path | None) -> ssl.SSLContext:
    """Return a client's TLS 1.3 context that trusts this one authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=authority.decode("ascii"))
    if folder is not None:
        context.load_cert_chain(folder / "tls.pem", folder / "tls.key")
    return context


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - _EARLY)
    builder = builder.not_valid_after(now + datetime.timedelta(days=days))
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), False)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    never = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False
    )
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
        **never,
    )
