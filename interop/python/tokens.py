"""Signed tokens (JWT) for logins with OAUTHBEARER: a key by openssl, its key set, and tokens of any claims.

    tokens.py FOLDER USER    writes FOLDER/key.pem and FOLDER/jwks.json if they are not there, prints a token
"""
import base64, json, subprocess, sys, time
from pathlib import Path

ISSUER, AUDIENCE, KEY_ID = "https://issuer.example", "tailrace", "interop"


def text(raw):
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def make_keys(folder):
    """A private key, and the set of its public one."""
    key = Path(folder) / "key.pem"
    if key.exists():
        return
    subprocess.run(["openssl", "genpkey", "-quiet", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", key], check=True)
    told = subprocess.run(["openssl", "rsa", "-in", key, "-noout", "-modulus"], check=True, capture_output=True, text=True).stdout
    modulus = bytes.fromhex(told.strip().split("=")[1])
    one = {"kty": "RSA", "kid": KEY_ID, "use": "sig", "alg": "RS256", "n": text(modulus), "e": text(b"\1\0\1")}
    (Path(folder) / "jwks.json").write_text(json.dumps({"keys": [one]}))


def signed(folder, head, body, key="key.pem"):
    """A token of any header and claims, which may be a text."""
    both = ".".join(text(part.encode() if isinstance(part, str) else json.dumps(part).encode()) for part in (head, body))
    signature = subprocess.run(["openssl", "dgst", "-sha256", "-sign", Path(folder) / key], input=both.encode(), check=True, capture_output=True).stdout
    return f"{both}.{text(signature)}"


HEAD = {"alg": "RS256", "typ": "JWT", "kid": KEY_ID}


def claims(user, lives_s=3600, **more):
    """What a good token says. A claim that is None is left out."""
    now = int(time.time())
    body = {"iss": ISSUER, "aud": AUDIENCE, "sub": user, "iat": now, "exp": now + lives_s, **more}
    return {key: value for key, value in body.items() if value is not None}


def token(folder, user, lives_s=3600, **more):
    return signed(folder, HEAD, claims(user, lives_s, **more))


if __name__ == "__main__":
    make_keys(sys.argv[1])
    print(token(*sys.argv[1:3]))
