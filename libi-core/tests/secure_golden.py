"""Computes the examples in secure_golden.rs by other means: hashlib, and OpenSSL through `cryptography`.

Written from the Noise specification (revision 34) and from the chapter on `libi_core::secure`, not from its code.
Run it to see where a change of bytes comes from; nothing runs it by itself.
"""

import hashlib
import hmac
import struct
from functools import reduce

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


# AEGIS-128L as draft-irtf-cfrg-aegis-aead describes it. The S-box is computed, as FIPS 197 defines it.
def times(a, b):
    product = 0
    while b:
        product ^= a * (b & 1)
        a = a << 1 ^ (0x11B if a & 0x80 else 0)
        b >>= 1
    return product


def substitute(byte):
    inverse = next((other for other in range(256) if times(byte, other) == 1), 0)
    bits = [inverse >> i & 1 for i in range(8)]
    return sum((bits[i] ^ bits[i - 4] ^ bits[i - 3] ^ bits[i - 2] ^ bits[i - 1] ^ 0x63 >> i & 1) << i for i in range(8))


SBOX = [substitute(byte) for byte in range(256)]
DOUBLE, TRIPLE = [times(byte, 2) for byte in range(256)], [times(byte, 3) for byte in range(256)]


def xor(*blocks):
    return bytes(reduce(int.__xor__, column) for column in zip(*blocks))


def aes_round(block, key):
    rows = [SBOX[block[(i + 4 * (i % 4)) % 16]] for i in range(16)]
    mixed = bytes(
        DOUBLE[c[i]] ^ TRIPLE[c[i - 3]] ^ c[i - 2] ^ c[i - 1]
        for c in (rows[at : at + 4] for at in range(0, 16, 4))
        for i in range(4)
    )
    return xor(mixed, key)


def update(s, m0, m1):
    fed = [xor(s[i], m0 if i == 0 else m1) if i in (0, 4) else s[i] for i in range(8)]
    return [aes_round(s[i - 1], fed[i]) for i in range(8)]


def aegis(key, number, plain):
    nonce = bytes(8) + struct.pack("<Q", number)
    c0, c1 = bytes.fromhex("000101020305080d1522375990e97962"), bytes.fromhex("db3d18556dc22ff12011314273b528dd")
    s = [xor(key, nonce), c1, c0, c1, xor(key, nonce), xor(key, c0), xor(key, c1), xor(key, c0)]
    for _ in range(10):
        s = update(s, nonce, key)
    sealed = b""
    for at in range(0, len(plain), 32):
        block = plain[at : at + 32].ljust(32, b"\0")
        both = lambda a, b: bytes(x & y for x, y in zip(a, b))
        z = xor(s[6], s[1], both(s[2], s[3])) + xor(s[2], s[5], both(s[6], s[7]))
        sealed += xor(block, z)
        s = update(s, block[:16], block[16:])
    t = xor(s[2], struct.pack("<QQ", 0, 8 * len(plain)))
    for _ in range(7):
        s = update(s, t, t)
    return sealed[: len(plain)] + xor(*s[:7])



def public(private):
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def shared(private, public_key):
    return X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(public_key))


def prologue(version, session, host, attempt, parent, mode):
    kind, number = (0, 0) if parent is None else (1, parent)
    return b"libilink" + struct.pack("<HBBIIII", version, mode, kind, session, host, attempt, number)


def link(mode, offer, cipher):
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
    offered = box(key, 0, h, bytes([offer]))
    h = digest(h + offered)
    opening = link_id + e + offered

    re = public(PARENT)
    h = digest(h + re)
    ck, key = hkdf(ck, re, 2)
    ck, key = hkdf(ck, shared(CHILD, re), 2)
    reply = re + box(key, 0, h, bytes([cipher]))

    child, parent = hkdf(ck, b"", 2)
    if cipher == 1:
        child, parent = (hashlib.blake2s(b"libi aegis-128l", key=key).digest()[:16] for key in (child, parent))

    def sealed(key, number, plain):
        return aegis(key, number, plain) if cipher == 1 else box(key, number, b"", plain)

    def record(key, number, plain):
        ciphertext = sealed(key, number, plain)
        return struct.pack("<H", len(ciphertext)) + ciphertext

    return {
        "prologue": terms,
        "id": link_id,
        "opening": opening,
        "reply": reply,
        "proof": sealed(child, 0, b""),
        "child's records": record(child, 1, b"child") + record(child, 2, b"more"),
        "parent's record": record(parent, 0, b"parent"),
        "long records": digest(
            record(parent, 1, bytes([0x5A]) * 16384)
            + record(parent, 2, bytes([0x5A]) * 16384)
            + record(parent, 3, b"Z")
        ),
    }


print("front end", prologue(1, 2, 3, 4, None, 1).hex())
# Link 1 is encrypted, 2 is authenticated, 3 is encrypted between ends that both have instructions for AES.
for number, mode, offer, cipher in (1, 1, 1, 0), (2, 2, 1, 0), (3, 1, 3, 1):
    for name, value in link(mode, offer, cipher).items():
        print(number, name, value.hex())
