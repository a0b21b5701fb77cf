"""Connections without a login, and logins that are wrong in every way, at both servers."""
import base64, hashlib, hmac, json
from collections import Counter
import subprocess, time
from servers import keys, kproto, tokens as jwt

UNKNOWN = "nobody"


def outcome(action):
    try:
        return action()
    except kproto.Closed:
        return "closed"
    except OSError as error:
        return f"closed: {type(error).__name__}"


def brief(answer):
    return {key: value if not isinstance(value, bytes) else len(value) for key, value in answer.items() if key not in ("SessionLifetimeMs",)}


def without(server, api, version, before=()):
    """What a request gets on a connection without a login, and whether the connection lives on."""
    one = server.connect()
    try:
        for name, number, body in before:
            one.call(name, number, body)
        answer = outcome(lambda: one.call(api, version, minimal(server, api, version)))
        if answer == "closed" or isinstance(answer, str):
            return answer
        code = next(iter(codes(answer)), None)
        after = outcome(lambda: one.call("ApiVersions", 0, {}))
        return [code, after if isinstance(after, str) else "open"]
    finally:
        one.close()


def minimal(server, api, version):
    body = {}
    for field in server.schema.requests[server.schema.key(api)]["fields"]:
        if kproto.inr(version, field["versions"]) and "fields" not in field and not field["type"].startswith("[]") and field["type"] == "string":
            body[field["name"]] = "x"
    return body


def codes(value):
    if isinstance(value, dict):
        for key, inner in value.items():
            if key.endswith("ErrorCode"):
                yield inner
            else:
                yield from codes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from codes(inner)


def tokens(server, mechanism, *raw, version=2):
    """The answers to these tokens, and what the connection is then."""
    one, said = server.connect(), []
    try:
        first = outcome(lambda: one.call("SaslHandshake", 1, {"Mechanism": mechanism}))
        if isinstance(first, str) or first["ErrorCode"]:
            after = outcome(lambda: one.call("ApiVersions", 0, {}))
            return [first if isinstance(first, str) else [first["ErrorCode"], sorted(first["Mechanisms"])], after if isinstance(after, str) else "open"]
        last = None
        for make in raw:
            token = make(last) if callable(make) else make
            answer = outcome(lambda: one.call("SaslAuthenticate", version, {"AuthBytes": token}))
            if isinstance(answer, str):
                said.append(answer)
                return said
            last = answer["AuthBytes"]
            said.append([answer["ErrorCode"], answer["ErrorMessage"]])
            if answer["ErrorCode"]:
                break
        after = outcome(lambda: one.call("Metadata", 9, {"Topics": []}))
        said.append(after if isinstance(after, str) else "logged in")
        return said
    finally:
        one.close()


def scram(user, password, name="sha256", nonce="abcdefghij", break_it=None, gs2="n,,", first_more=""):
    """The two messages of a client, with something wrong in them."""
    bare = f"n={user},r={nonce}{first_more}"

    def final(server_first):
        fields = dict(part.split("=", 1) for part in server_first.decode().split(","))
        salted = hashlib.pbkdf2_hmac(name, password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
        channel, whole = base64.b64encode(gs2.encode()).decode(), fields["r"]
        if break_it == "nonce":
            whole = whole[:-1] + ("a" if whole[-1] != "a" else "b")
        if break_it == "client nonce only":
            whole = nonce
        if break_it == "channel":
            channel = base64.b64encode(b"y,,").decode()
        without = f"c={channel},r={whole}"
        message = f"{bare},{server_first.decode()},{without}".encode()
        client = hmac.digest(salted, b"Client Key", name)
        proof = bytes(a ^ b for a, b in zip(client, hmac.digest(hashlib.new(name, client).digest(), message, name)))
        if break_it == "proof":
            proof = proof[:-1] + bytes([proof[-1] ^ 1])
        if break_it == "short proof":
            proof = proof[:-1]
        return f"{without},p={base64.b64encode(proof).decode()}".encode()
    return (gs2 + bare).encode(), final


def scenes(user, secret):
    """Name, mechanism, tokens."""
    def plain(authzid, who, password):
        return f"{authzid}\0{who}\0{password}".encode()
    yield from (
        ("PLAIN", "PLAIN", plain("", user, secret)), ("PLAIN, own authzid", "PLAIN", plain(user, user, secret)), ("PLAIN, authzid of another", "PLAIN", plain("admin", user, secret)),
        ("PLAIN, wrong password", "PLAIN", plain("", user, "guess")), ("PLAIN, unknown user", "PLAIN", plain("", UNKNOWN, secret)),
        ("PLAIN, empty user", "PLAIN", plain("", "", secret)), ("PLAIN, empty password", "PLAIN", plain("", user, "")), ("PLAIN, two parts", "PLAIN", f"{user}\0{secret}".encode()),
        ("PLAIN, four parts", "PLAIN", plain("", user, secret) + b"\0x"), ("PLAIN, nothing", "PLAIN", b""), ("PLAIN, authzid of another and a wrong password", "PLAIN", plain("admin", user, "guess")),
        ("a mechanism that is not served", "GSSAPI", b""), ("no mechanism", "", b""), ("lower case", "plain", plain("", user, secret)))
    for what, more in (("right", {}), ("wrong password", {"password": "guess"}), ("nonce", {"break_it": "nonce"}), ("client nonce only", {"break_it": "client nonce only"}),
                       ("proof", {"break_it": "proof"}), ("short proof", {"break_it": "short proof"}), ("authzid of another", {"gs2": "n,a=admin,"}), ("own authzid", {"gs2": f"n,a={user},"}),
                       ("channel", {"break_it": "channel"}), ("binding", {"gs2": "p=tls-unique,,"}), ("an extension", {"first_more": ",x=y"})):
        yield f"SCRAM, {what}", "SCRAM-SHA-256", *scram(**({"user": user, "password": secret} | more))
    yield "SCRAM, other mechanism", "SCRAM-SHA-512", *scram(user, secret, "sha512")
    for what, first in (("empty", b""), ("no nonce", b"n,,n=x"), ("bad escape", b"n,,n=a=2Db,r=abc"), ("not text", b"\xff\xfe"), ("a final first", b"c=biws,r=a,p=AAAA"), ("m=", b"n,,m=x,n=a,r=abc"),
                        ("an unknown user", b"n,,n=nobody,r=abcdef")):
        yield f"SCRAM, first message {what}", "SCRAM-SHA-256", first
    yield "SCRAM, final message of rubbish", "SCRAM-SHA-256", scram(user, secret)[0], b"rubbish"


def bearer_scenes(user):
    """Name and token, each with something wrong, and good ones between them."""
    folder, _ = keys()
    other = folder / "other.pem"
    if not other.exists():
        subprocess.run(["openssl", "genpkey", "-quiet", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", other], check=True)
    now, good = int(time.time()), jwt.token(folder, user)
    head, body, signature = good.split(".")

    def claims(**more):
        return jwt.signed(folder, jwt.HEAD, jwt.claims(user, **more))

    def unsigned(alg, key=None):
        first = f"{jwt.text(json.dumps({**jwt.HEAD, 'alg': alg}).encode())}.{body}"
        return f"{first}.{jwt.text(hmac.digest(key, first.encode(), 'sha256')) if key else ''}"
    public = subprocess.run(["openssl", "rsa", "-in", folder / "key.pem", "-pubout"], check=True, capture_output=True).stdout
    yield from (
        ("right", good), ("another key", jwt.signed(folder, jwt.HEAD, jwt.claims(user), "other.pem")), ("alg none", unsigned("none")), ("alg None", unsigned("None")),
        ("HS256 with the public key", unsigned("HS256", public)), ("kid of no key", jwt.signed(folder, {**jwt.HEAD, "kid": "other"}, jwt.claims(user))),
        ("alg RS512 over RS256", jwt.signed(folder, {**jwt.HEAD, "alg": "RS512"}, jwt.claims(user))),
        ("another issuer", claims(iss="https://evil.example")), ("no issuer", claims(iss=None)), ("another audience", claims(aud="other")), ("no audience", claims(aud=None)),
        ("one of two audiences", claims(aud=["other", jwt.AUDIENCE])), ("expired", claims(iat=now - 7200, exp=now - 3600)), ("expired within the skew", claims(iat=now - 60, exp=now - 5)),
        ("no exp", claims(exp=None)), ("no iat", claims(iat=None)), ("not yet valid", claims(nbf=now + 3600)), ("no sub", claims(sub=None)), ("blank sub", claims(sub=" ")),
        ("a number as sub", claims(sub=5)), ("text as exp", claims(exp="tomorrow")), ("scopes as text", claims(scope="a b")), ("scopes as a list", claims(scope=["a", "b"])),
        ("a scope twice", claims(scope=["a", "a"])), ("a number as scope", claims(scope=5)), ("truncated", good[:-10]), ("no signature", f"{head}.{body}."), ("two parts", f"{head}.{body}"), ("rubbish", "x"),
        ("another body", f"{head}.{jwt.text(json.dumps(jwt.claims('admin')).encode())}.{signature}"),
        ("sub twice", jwt.signed(folder, jwt.HEAD, json.dumps(jwt.claims(user))[:-1] + ', "sub": "admin"}')))


def bearer(server, user, raw, gs2="n,,", more=""):
    """The outcome of a token: what was answered first, and what in the end."""
    first = f"{gs2}\1auth=Bearer {raw}\1{more}\1".encode()
    one = server.connect()
    try:
        one.call("SaslHandshake", 1, {"Mechanism": "OAUTHBEARER"})
        said = []
        for message in (first, b"\1"):
            answer = outcome(lambda: one.call("SaslAuthenticate", 2, {"AuthBytes": message}))
            if isinstance(answer, str):
                return [*said, answer]
            said.append([answer["ErrorCode"], answer["ErrorMessage"] or answer["AuthBytes"].decode()])
            if answer["ErrorCode"] or not answer["AuthBytes"]:
                break
        after = outcome(lambda: one.call("Metadata", 9, {"Topics": []}))
        return [*said, after if isinstance(after, str) else "logged in"]
    finally:
        one.close()


def intended(what, kafka, tailrace):
    """What differs on purpose, and why. See docs/security.md."""
    if what.endswith("after the handshake") and tailrace == "closed" and kafka[1] == "closed":
        return "another request in the middle of a login: closed without an answer, since nothing of it is read"
    if what.startswith("ApiVersions") and (kafka, tailrace) == ([0, "closed"], [0, "open"]):
        return "ApiVersions may be asked again before a login"
    if what.startswith("PLAIN") and kafka[0][0] == tailrace[0][0] == 58 and kafka[1] == tailrace[1]:
        return "PLAIN: one message for all failures"
    if what == "SCRAM, short proof" and kafka[-1] == tailrace[-1] == "closed" and tailrace[-2][0] == 58:
        return "SCRAM: answered, where Kafka closes without a word"
    if what in ("SCRAM, authzid of another", "OAUTHBEARER, authzid of another") and kafka[0][0] == tailrace[0][0] == 58:
        return "SCRAM, OAUTHBEARER: the message does not say that the authzid was wrong"
    if what == "SCRAM, an extension" and kafka[-1] == "logged in" and tailrace[0][0] == 58:
        return "SCRAM: no extension but tokenauth is accepted, where Kafka ignores it"
    if what in ("SCRAM, first message an unknown user", "SCRAM, other mechanism") and kafka[0][0] == 58:
        return "SCRAM: an unknown user fails like a wrong password, in the last message"
    if what == "SCRAM, channel" and kafka[-1] == "logged in" and tailrace[-1] == "closed":
        return "SCRAM: the channel binding is compared"
    if what == "OAUTHBEARER, expired within the skew" and kafka == [[0, ""], "closed"] and tailrace[-1] == "closed":
        return "OAUTHBEARER: a token that is over within the skew is refused, where Kafka closes at the next request"
    if what == "OAUTHBEARER, a number as scope" and kafka[-1] == "logged in" and tailrace[-1] == "closed":
        return "OAUTHBEARER: a scope that is no text is refused"
    if what in ("SaslHandshake after a login", "SaslAuthenticate after a login") and kafka["ErrorCode"] == tailrace["ErrorCode"] == 34:
        return "SASL after a login: another text, and the list of mechanisms"
    return None


def compare(servers, versions):
    differences, counts, met = 0, 0, Counter()

    def judge(what, answers):
        nonlocal differences, counts
        counts += 1
        if answers[0] == answers[1]:
            return
        if reason := intended(what, *answers):
            met[reason] += 1
        else:
            differences += 1
            print(f"FAIL logins: {what}\n  kafka:    {json.dumps(answers[0])}\n  tailrace: {json.dumps(answers[1])}", flush=True)
    handshake = ("SaslHandshake", 1, {"Mechanism": "PLAIN"})
    for api, (low, high) in versions.items():
        for version in range(low, high + 1):
            judge(f"{api} v{version} before a login", [without(server, api, version) for server in servers])
        judge(f"{api} v{high} after the handshake", [without(server, api, high, [handshake]) for server in servers])
    user = servers[0].users[0]
    for server in servers:
        server.users, everybody = [user], server.users
        server.make_users()
        server.users = everybody
    for what, mechanism, *raw in scenes(user, f"{user}-secret"):
        judge(what, [tokens(server, mechanism, *raw) for server in servers])
    for what, raw in bearer_scenes(user):
        judge(f"OAUTHBEARER, {what}", [bearer(server, user, raw) for server in servers])
    good = jwt.token(keys()[0], user)
    for what, how in (("own authzid", {"gs2": f"n,a={user},"}), ("authzid of another", {"gs2": "n,a=admin,"}), ("an extension", {"more": "a=b\1"}), ("auth twice", {"more": "auth=x\1"}),
                      ("a binding", {"gs2": "p=tls-unique,,"})):
        judge(f"OAUTHBEARER, {what}", [bearer(server, user, good, **how) for server in servers])
    for api, body in (("SaslHandshake", {"Mechanism": "PLAIN"}), ("SaslAuthenticate", {"AuthBytes": b"x"})):
        judge(f"{api} after a login", [outcome(lambda: brief(server.login(user).call(api, 1, body))) for server in servers])
    print(f"logins: {counts} compared, {differences} differences", flush=True)
    for reason, count in met.items():
        print(f"  known: {reason}, {count} times")
    return differences
