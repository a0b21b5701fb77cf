"""Logins and rules with franz-go, sarama, kafkajs and Kafka's Java client, against the servers of
interop/security.sh.

Every client is a process that plays the same scenes (go/security, js/security.js, SecurityClient.java) and says
which of Kafka's errors it was told. The clients work at the same time, each as users of its own.

SECURITY_MODE=full: every mechanism, certificates, transactions, and logins that end while a client works.
Otherwise one mechanism per client, and what each of them may not do. SECURITY_FOLDER has the keys for tokens and
the certificates. SECURITY_TLS is the address of a server with TLS, where a login lasts three seconds.
"""
import os, queue, subprocess, sys, threading, time, uuid
from pathlib import Path

from confluent_kafka.admin import (AclBinding, AclOperation, AclPermissionType, AdminClient, ResourcePatternType, ResourceType, ScramCredentialInfo,
                                   ScramMechanism, UserScramCredentialDeletion, UserScramCredentialUpsertion)

import tokens
from harness import BOOTSTRAP, Failure, check

FULL = os.environ.get("SECURITY_MODE") == "full"
FOLDER = Path(os.environ["SECURITY_FOLDER"])
TLS = os.environ.get("SECURITY_TLS")
HERE = Path(__file__).resolve().parent.parent
SCENE_SECONDS_MAX = 60
# A removed user's client is cut off by then, with its own retries.
CUT_SECONDS = 25
REFUSED, LOGIN = "AUTHORIZATION_FAILED", "SASL_AUTHENTICATION_FAILED"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
CLIENTS = {
    "franz-go": [os.environ["GO_SECURITY_BIN"], "franz"],
    "sarama": [os.environ["GO_SECURITY_BIN"], "sarama"],
    "kafkajs": ["node", str(HERE / "js/security.js")],
    "kafka-clients": ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{HERE}/java/target/classes:{os.environ['KAFKA_LIBS']}/*",
                      "tailrace.interop.SecurityClient"],
}
# The short run: one mechanism each, so that all are met.
SHORT = dict(zip(CLIENTS, ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER")))
# What some clients tell instead of the error that they were told.
HIDDEN = {("kafkajs", f"GROUP_{REFUSED}"): "KafkaJSGroupCoordinatorNotFound", ("kafkajs", f"TRANSACTIONAL_ID_{REFUSED}"): "KafkaJSGroupCoordinatorNotFound", ("franz-go", "OAUTHBEARER"): "unexpected data in oauth response",
          # It takes a refused token for accepted and goes on. Kafka says so, tailrace closes the connection.
          ("kafkajs", "OAUTHBEARER"): "ILLEGAL_SASL_STATE" if os.environ.get("SECURITY_TARGET") == "kafka" else "KafkaJSNumberOfRetriesExceeded"}
output = threading.Lock()
failed = 0


class Client:
    """The process of a client. `ask` plays a scene and returns its answer as words."""

    def __init__(self, name):
        self.name = name
        self.process = subprocess.Popen(CLIENTS[name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=HERE / "js")
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.split())
        self.lines.put(["error", "ENDED"])

    def say(self, scene):
        self.process.stdin.write("\t".join(f"{key}={value}" for key, value in scene.items()) + "\n")
        self.process.stdin.flush()

    def answer(self):
        try:
            return self.lines.get(timeout=SCENE_SECONDS_MAX)
        except queue.Empty:
            raise Failure(f"no answer within {SCENE_SECONDS_MAX} s") from None

    def ask(self, scene):
        self.say(scene)
        return self.answer()

    def works(self, scene):
        answer = self.ask(scene)
        check(answer[0] == "ok", f"{scene['do']}: {' '.join(answer)[:300]}")

    def refuses(self, scene, code, what):
        answer = self.ask(scene)
        hidden = HIDDEN.get((self.name, scene.get("mechanism") if code == LOGIN else code))
        told = code in answer[1] or (hidden is not None and hidden in " ".join(answer))
        check(answer[0] == "error" and told, f"{what}: want {code}, got {' '.join(answer)[:300]}")


def run(client, name, action):
    global failed
    began, why = time.monotonic(), None
    try:
        action()
    except Exception as error:
        why = error
    with output:
        failed += why is not None
        print(f"{'PASS' if why is None else 'FAIL'} {client.name}: {name}{'' if why is None else f': {why!r}'} ({time.monotonic() - began:.1f} s)", flush=True)


# ---- users and rules ----

def administrator():
    return AdminClient({"bootstrap.servers": BOOTSTRAP, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "admin",
                        "sasl.password": "admin-secret"})


def settled(futures):
    for future in futures.values():
        future.result(15)


def add_user(admin, user):
    # Kafka refuses both mechanisms in one request.
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        settled(admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), b"fleet-secret")]))


def remove_user(admin, user):
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        settled(admin.alter_user_scram_credentials([UserScramCredentialDeletion(user, mechanism)]))


def allow(admin, user):
    """Produce to and consume from `fleet`, with groups and transactional ids that begin with `fleet-`."""
    def rule(kind, name, pattern, operation):
        return AclBinding(kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
    settled(admin.create_acls([
        rule(ResourceType.TOPIC, "fleet", ResourcePatternType.LITERAL, AclOperation.READ), rule(ResourceType.TOPIC, "fleet", ResourcePatternType.LITERAL, AclOperation.WRITE),
        rule(ResourceType.GROUP, "fleet-", ResourcePatternType.PREFIXED, AclOperation.READ), rule(ResourceType.TRANSACTIONAL_ID, "fleet-", ResourcePatternType.PREFIXED, AclOperation.WRITE)]))


# ---- scenes ----

def secured(login):
    """The login with TLS, as a client that has a certificate must make it."""
    return {**login, "bootstrap": TLS, "ca": FOLDER / "ca.pem", "cert": FOLDER / "client.pem", "key": FOLDER / "client.key", "both": FOLDER / "both.pem"}


def login_as(user, mechanism):
    login = {"bootstrap": BOOTSTRAP, "mechanism": mechanism, "user": user, "password": "fleet-secret"}
    if mechanism == "OAUTHBEARER":
        path = FOLDER / f"token-{user}"
        if not path.exists():
            path.write_text(tokens.token(FOLDER, user))
        login |= {"token": path.read_text(), "token-file": path}
    return login


def may(client, login, transactions):
    value = uuid.uuid4().hex
    client.works({**login, "do": "produce", "topic": "fleet", "value": value})
    client.works({**login, "do": "consume", "topic": "fleet", "group": f"fleet-{value}", "value": value})
    if transactions:
        client.works({**login, "do": "transact", "topic": "fleet", "id": f"fleet-{value}", "value": value})


def may_not(client, login, transactions):
    client.refuses({**login, "do": "produce", "topic": "closed", "value": "x"}, f"TOPIC_{REFUSED}", "another topic")
    client.refuses({**login, "do": "consume", "topic": "closed", "group": "fleet-x", "value": "x"}, f"TOPIC_{REFUSED}", "reading another topic")
    client.refuses({**login, "do": "consume", "topic": "fleet", "group": "others", "value": "x"}, f"GROUP_{REFUSED}", "another group")
    if transactions:
        client.refuses({**login, "do": "transact", "topic": "fleet", "id": "others", "value": "x"}, f"TRANSACTIONAL_ID_{REFUSED}", "another transactional id")


def wrong(client, login):
    bad = {**login, "password": "a guess"}
    if login["mechanism"] == "OAUTHBEARER":
        path = FOLDER / f"token-late-{login['user']}"
        path.write_text(tokens.token(FOLDER, login["user"], aud="another service"))
        bad |= {"token": path.read_text(), "token-file": path}
    client.refuses({**bad, "do": "produce", "topic": "fleet", "value": "x"}, LOGIN, "a wrong password")


def unknown(client, login):
    client.refuses({**login, "user": "nobody", "do": "produce", "topic": "fleet", "value": "x"}, LOGIN, "an unknown user")


def cut(client, admin, mechanism):
    user = f"gone-{client.name}"
    add_user(admin, user)
    allow(admin, user)
    client.say({**login_as(user, mechanism), "do": "hold", "topic": "fleet", "seconds": CUT_SECONDS})
    check(client.answer() == ["works"], "the client does not work")
    remove_user(admin, user)
    began, answer = time.monotonic(), client.answer()
    check(answer[0] == "error", f"still works {time.monotonic() - began:.0f} s after the user was removed: {answer}")
    if answer[1] != LOGIN:
        # Its own retries hide the reason. A new client is told.
        client.refuses({**login_as(user, mechanism), "do": "produce", "topic": "fleet", "value": "x"}, LOGIN, "a removed user")


def again(client, login):
    """Works for three times as long as a login lasts."""
    client.say({**login, "do": "hold", "topic": "fleet", "seconds": 10})
    check(client.answer() == ["works"], "the client does not work")
    answer = client.answer()
    check(answer[0] == "ok", f"does not work on: {' '.join(answer)[:300]}")


def plays(name, admin):
    client, user = Client(name), f"user-{name}"
    transactions = FULL
    for mechanism in MECHANISMS if FULL else (SHORT[name],):
        login = login_as(user, mechanism)
        run(client, f"may what the rules say, {mechanism}", lambda: may(client, login, transactions))
        run(client, f"may nothing else, {mechanism}", lambda: may_not(client, login, transactions))
        run(client, f"a wrong secret, {mechanism}", lambda: wrong(client, login))
        if FULL and mechanism != "OAUTHBEARER":
            run(client, f"an unknown user, {mechanism}", lambda: unknown(client, login))
    if FULL and os.environ.get("SECURITY_TARGET") != "kafka":
        run(client, "a removed user is cut off", lambda: cut(client, admin, "SCRAM-SHA-512"))
    if TLS:
        certificate = {key: value for key, value in secured({}).items()}
        run(client, "a certificate names the user", lambda: may(client, certificate, transactions))
        run(client, "a certificate gives no more", lambda: may_not(client, certificate, transactions))
        for mechanism in MECHANISMS:
            run(client, f"works on while logins end, TLS and {mechanism}", lambda: again(client, secured(login_as(user, mechanism))))
    client.process.stdin.close()
    try:
        client.process.wait(10)
    except subprocess.TimeoutExpired:
        client.process.kill()


def main():
    tokens.make_keys(FOLDER)
    for bootstrap in filter(None, (BOOTSTRAP, TLS)):
        admin = administrator() if bootstrap == BOOTSTRAP else tls_administrator()
        from confluent_kafka.admin import NewTopic
        settled(admin.create_topics([NewTopic("fleet", 1), NewTopic("closed", 1)]))
        for name in CLIENTS:
            add_user(admin, f"user-{name}")
            allow(admin, f"user-{name}")
        allow(admin, "certified")
    admin = administrator()
    threads = [threading.Thread(target=plays, args=(name, admin)) for name in CLIENTS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 1 if failed else 0


def tls_administrator():
    return AdminClient({"bootstrap.servers": TLS, "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "admin", "sasl.password": "admin-secret",
                        "ssl.ca.location": str(FOLDER / "ca.pem"), "ssl.certificate.location": str(FOLDER / "client.pem"), "ssl.key.location": str(FOLDER / "client.key")})


if __name__ == "__main__":
    sys.exit(main())
