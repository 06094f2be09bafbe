"""Computes the examples in secure_golden.rs by other means: hashlib, and OpenSSL through `cryptography`.

Written from the Noise specification (revision 34) and from the chapter on `libi_core::secure`, not from its code.
Run it to see where a change of bytes comes from; nothing runs it by itself.
"""

import hashlib
import hmac
import struct

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

SECRET = bytes(range(32))
CHILD, PARENT = bytes([0x11]) * 32, bytes([0x22]) * 32  # private keys


def digest(data):
    return hashlib.blake2s(data).digest()


def hkdf(chaining_key, material, outputs):
    temp = hmac.new(chaining_key, material, hashlib.blake2s).digest()
    out, last = [], b""
    for i in range(1, outputs + 1):
        last = hmac.new(temp, last + bytes([i]), hashlib.blake2s).digest()
        out.append(last)
    return out


def box(key, number, data, plain):
    return ChaCha20Poly1305(key).encrypt(bytes(4) + struct.pack("<Q", number), plain, data)


def public(private):
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def shared(private, public_key):
    return X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(public_key))


def prologue(version, session, host, attempt, parent, mode):
    kind, number = (0, 0) if parent is None else (1, parent)
    return b"libilink" + struct.pack("<HBBIIII", version, mode, kind, session, host, attempt, number)


def link(mode):
    terms = prologue(0x0102, 0x03040506, 0x0708090A, 0x0B0C0D0E, 0x0F101112, mode)
    psk = hashlib.blake2s(b"libi psk" + terms, key=SECRET).digest()
    link_id = hashlib.blake2s(b"libi id " + terms, key=SECRET).digest()[:16]

    h = ck = digest(b"Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s")
    h = digest(h + terms)
    ck, temp, key = hkdf(ck, psk, 3)
    h = digest(h + temp)
    e = public(CHILD)
    h = digest(h + e)
    ck, key = hkdf(ck, e, 2)
    tag = box(key, 0, h, b"")
    h = digest(h + tag)
    opening = link_id + e + tag

    re = public(PARENT)
    h = digest(h + re)
    ck, key = hkdf(ck, re, 2)
    ck, key = hkdf(ck, shared(CHILD, re), 2)
    reply = re + box(key, 0, h, b"")

    child, parent = hkdf(ck, b"", 2)

    def record(key, number, plain):
        sealed = box(key, number, b"", plain)
        return struct.pack("<H", len(sealed)) + sealed

    return {
        "prologue": terms,
        "id": link_id,
        "opening": opening,
        "reply": reply,
        "proof": box(child, 0, b"", b""),
        "child's records": record(child, 1, b"child") + record(child, 2, b"more"),
        "parent's record": record(parent, 0, b"parent"),
        "long records": digest(
            record(parent, 1, bytes([0x5A]) * 16384)
            + record(parent, 2, bytes([0x5A]) * 16384)
            + record(parent, 3, b"Z")
        ),
    }


print("front end", prologue(1, 2, 3, 4, None, 1).hex())
for mode in 1, 2:
    for name, value in link(mode).items():
        print(mode, name, value.hex())
