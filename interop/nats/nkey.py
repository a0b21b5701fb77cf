"""A new key of a NATS user: nkey.py FILE writes its seed to FILE and prints its public key.

openssl makes the key; NATS writes it in base32 with a prefix and a checksum (CRC-16/XMODEM, low byte first).
"""
import base64, binascii, os, subprocess, sys

USER, SEED = 20 << 3, 18 << 3
# PKCS #8 and SubjectPublicKeyInfo end with the 32 bytes of an Ed25519 key.
KEY_BYTES = 32


def encoded(data):
    checked = data + binascii.crc_hqx(data, 0).to_bytes(2, "little")
    return base64.b32encode(checked).decode().rstrip("=")


def openssl(*arguments, **more):
    return subprocess.run(["openssl", *arguments, "-outform", "DER"], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **more).stdout


private = openssl("genpkey", "-algorithm", "ed25519")
public = openssl("pkey", "-inform", "DER", "-pubout", input=private)
# A seed's prefix holds both kinds: 5 bits of "seed", 8 bits of "user", 3 unused.
prefix = bytes([SEED | (USER >> 5), (USER & 31) << 3])
with open(os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
    file.write(encoded(prefix + private[-KEY_BYTES:]))
print(encoded(bytes([USER]) + public[-KEY_BYTES:]))
