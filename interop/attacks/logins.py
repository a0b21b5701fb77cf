"""Attacks on the logins of Kafka and NATS clients: by those who never finish it, who guess, and who repeat what they heard.

The server requires a login and has its own bounds, except for the time of a login, so that cells are short. A
user who comes from another address logs in meanwhile.
"""
import base64, hashlib, hmac, random, socket, struct, threading, time
import payloads, wire
from measure import PASSWORD, TOPIC, USER, check
from wire import MIB

LOGIN_SECONDS, PER_ADDRESS = 3, 500
# A login from another address, while the attack is on: with a debug build on a busy machine.
LOGIN_SECONDS_MAX, QUICK_LOGIN_SECONDS_MAX = 1, 5
ELSEWHERE = "127.0.0.2"
# What attackers may cost: CPU of the server while a cell lasts.
CPU_SECONDS_MAX, QUICK_CPU_SECONDS_MAX = 3, 12
GUESS_SECONDS = 6
# A connection that the server closes may be a line of log.
LINE_BYTES = 200
# Answers of guesses are delayed by 100 ms, then by twice as much each, up to 5 s.
GUESSES_MAX = 40


def settings():
    return ["tailrace.kafka.authentication=required", "tailrace.nats.authentication=required", f"tailrace.first.user={USER}", f"tailrace.kafka.login.timeout.ms={LOGIN_SECONDS * 1000}"]


def request(attack, name, version, body):
    return wire.frame(attack.server.schema, name, version, body)


def handshake(attack, mechanism):
    return request(attack, "SaslHandshake", 1, {"Mechanism": mechanism})


def token(attack, raw):
    return request(attack, "SaslAuthenticate", 0, {"AuthBytes": raw})


def plain(user, password, authzid=""):
    return f"{authzid}\0{user}\0{password}".encode()


class Login:
    """A connection that asks and waits, from an address of its choice."""

    def __init__(self, attack, source="127.0.0.1"):
        self.attack = attack
        self.socket = socket.create_connection(wire.address(attack.server.kafka), timeout=20, source_address=(source, 0))

    def frame(self, raw):
        self.socket.sendall(raw)
        length = struct.unpack(">i", self.exactly(4))[0]
        return self.exactly(length)[4:]

    def exactly(self, count):
        out = b""
        while len(out) < count:
            part = self.socket.recv(count - len(out))
            if not part:
                raise ConnectionError("closed")
            out += part
        return out

    def authenticate(self, raw):
        """The error code and the bytes of the answer."""
        answer = self.frame(token(self.attack, raw))
        code, words = struct.unpack(">hh", answer[:4])
        at = 4 + max(0, words)
        length = struct.unpack(">i", answer[at:at + 4])[0]
        return code, answer[at + 4:at + 4 + max(0, length)]

    def begin(self, mechanism):
        self.frame(handshake(self.attack, mechanism))
        return self

    def close(self):
        self.socket.close()


def logs_in(attack, source=ELSEWHERE):
    """The time in which the right user logs in from another address."""
    began = time.monotonic()
    one = Login(attack, source)
    try:
        code, _ = one.begin("PLAIN").authenticate(plain(USER, PASSWORD))
        check(code == 0, f"the right user is refused: {code}")
    finally:
        one.close()
    return time.monotonic() - began


def unharmed(attack):
    took = logs_in(attack)
    attack.figures.more["a login from elsewhere"] = f"{took * 1000:.0f} ms"
    check(took <= (QUICK_LOGIN_SECONDS_MAX if attack.quick else LOGIN_SECONDS_MAX), f"a login from elsewhere took {took:.1f} s")


def writes(attack):
    """The time in which a user appends a record of 200 KB, who has logged in before."""
    one = Login(attack, ELSEWHERE)
    one.begin("PLAIN").authenticate(plain(USER, PASSWORD))
    body = {"Acks": 1, "TimeoutMs": 30_000, "TopicData": [{"Name": TOPIC, "PartitionData": [{"Index": 0, "Records": payloads.batch(random.Random(1).randbytes(200_000))}]}]}
    raw, began = request(attack, "Produce", 9, body), time.monotonic()
    one.frame(raw)
    took = time.monotonic() - began
    one.close()
    attack.figures.more["a produce of 200 KB"] = f"{took * 1000:.0f} ms"
    check(took <= (QUICK_LOGIN_SECONDS_MAX if attack.quick else LOGIN_SECONDS_MAX), f"a produce of 200 KB waited {took:.1f} s")


def cheap(attack):
    limit = QUICK_CPU_SECONDS_MAX if attack.quick else CPU_SECONDS_MAX
    check(attack.figures.cpu_seconds <= limit, f"{attack.figures.cpu_seconds:.1f} s of CPU, more than {limit}")


def half_open(count, make):
    """This many connections that begin a login and do not go on. They end by themselves."""
    def play(attack):
        attack.figures.log_free = count * LINE_BYTES
        with attack.watched():
            for _ in range(count):
                attack.send(attack.stranger(), *make(attack))
            check(attack.until(lambda: sum(one.closed for one in attack.strangers) >= count - PER_ADDRESS, 20), "more than one address may have wait for their login")
            unharmed(attack)
            writes(attack)
            check(attack.until(lambda: all(one.closed for one in attack.strangers), LOGIN_SECONDS + 20), "not all connections were closed after the time for a login")
        attack.figures.more["connections"] = str(count)
        cheap(attack)
    return play


def scram_begun(attack):
    return handshake(attack, "SCRAM-SHA-256"), token(attack, b"n,,n=admin,r=abcdefghijklmnop")


def frame_begun(attack):
    """Most of the longest frame that is read before a login."""
    return handshake(attack, "PLAIN"), struct.pack(">ihhih", 500_000, 36, 0, 1, -1) + bytes(400_000)


def nothing_begun(_attack):
    return (b"\0",)


def too_long(attack):
    """Frames that are longer than a stranger's may be are refused at their length."""
    with attack.watched():
        began = time.monotonic()
        for _ in range(50):
            attack.send(attack.stranger(), handshake(attack, "PLAIN"), struct.pack(">i", 90 * MIB) + bytes(10_000))
        check(attack.until(lambda: all(one.closed for one in attack.strangers), 20), "a frame of 90 MiB is waited for")
        check(time.monotonic() - began < LOGIN_SECONDS + 2, "the length alone does not end the connection")
        unharmed(attack)
    cheap(attack)


def guesses(mechanism, connections=40):
    """Passwords are guessed from one address, as fast as the server lets it."""
    def play(attack):
        answered, ends = [], time.monotonic() + GUESS_SECONDS

        def guess(number):
            while time.monotonic() < ends:
                try:
                    one = Login(attack)
                    try:
                        code = attempt(one.begin(mechanism), mechanism, f"guess {number}")
                        answered.append(code)
                    finally:
                        one.close()
                except OSError:
                    time.sleep(0.05)
        with attack.watched():
            threads = [threading.Thread(target=guess, args=(number,), daemon=True) for number in range(connections)]
            for thread in threads:
                thread.start()
            time.sleep(GUESS_SECONDS / 2)
            unharmed(attack)
            for thread in threads:
                thread.join(20)
        check(0 not in answered, "a guess was accepted")
        attack.figures.more["guesses answered"] = str(len(answered))
        # All connections of the address wait at the same time: each gets an answer per 5 s at most.
        limit = GUESSES_MAX + connections * (GUESS_SECONDS // 5 + 1)
        check(len(answered) <= limit, f"{len(answered)} guesses in {GUESS_SECONDS} s, more than {limit}")
        cheap(attack)
    return play


def attempt(one, mechanism, password):
    if mechanism == "PLAIN":
        return one.authenticate(plain(USER, password))[0]
    first, final = scram(USER, password)
    code, challenge = one.authenticate(first)
    return code or one.authenticate(final(challenge))[0]


def scram(user, password, nonce="abcdefghijklmnop", gs2="n,,"):
    """The first message of a client, and the second as a function of the server's."""
    bare = f"n={user},r={nonce}"

    def final(challenge):
        fields = dict(part.split("=", 1) for part in challenge.decode().split(","))
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
        without = f"c={base64.b64encode(gs2.encode()).decode()},r={fields['r']}"
        client = hmac.digest(salted, b"Client Key", "sha256")
        mine = hmac.digest(hashlib.sha256(client).digest(), f"{bare},{challenge.decode()},{without}".encode(), "sha256")
        return f"{without},p={base64.b64encode(bytes(a ^ b for a, b in zip(client, mine))).decode()}".encode()
    return (gs2 + bare).encode(), final


def replayed(attack):
    """What the right user said is said again, on other connections. And the right password with the name of
    another."""
    def heard():
        first, final = scram(USER, PASSWORD)
        one = Login(attack, ELSEWHERE).begin("SCRAM-SHA-256")
        code, challenge = one.authenticate(first)
        said = final(challenge)
        check(code == 0 and one.authenticate(said)[0] == 0, "the right user is refused")
        one.close()
        return first, said

    def refused(mechanism, *tokens, source):
        one = Login(attack, source).begin(mechanism)
        try:
            codes = [one.authenticate(tokens[0])[0]]
            for raw in tokens[1:]:
                if codes[-1] == 0:
                    codes.append(one.authenticate(raw)[0])
            check(codes[-1] != 0, f"{mechanism}: repeated or borrowed messages are accepted")
        finally:
            one.close()
    times = 4 if attack.quick else 20
    with attack.watched():
        first, said = heard()
        # Each from an address of its own, so that delays do not add up.
        for number in range(times):
            refused("SCRAM-SHA-256", first, said, source=f"127.0.1.{number + 1}")
            refused("SCRAM-SHA-256", said, first, source=f"127.0.2.{number + 1}")
        for number in range(times):
            refused("PLAIN", plain(USER, PASSWORD, authzid="root"), source=f"127.0.3.{number + 1}")
            borrowed, final = scram(USER, PASSWORD, gs2="n,a=root,")
            one = Login(attack, f"127.0.4.{number + 1}").begin("SCRAM-SHA-256")
            code, challenge = one.authenticate(borrowed)
            check(code != 0 or one.authenticate(final(challenge))[0] != 0, "SCRAM: the name of another is accepted")
            one.close()
        unharmed(attack)
    cheap(attack)


def nats_silent(attack, count=1000):
    """Connections to NATS that never say CONNECT, or half of one."""
    attack.figures.log_free = count * LINE_BYTES
    with attack.watched():
        for number in range(count):
            attack.send(attack.stranger(attack.server.nats), b"" if number % 2 else b'CONNECT {"user":"adm')
        unharmed(attack)
        check(attack.until(lambda: all(one.closed for one in attack.strangers), 20), "not all connections were closed after the time for CONNECT")
    cheap(attack)


def nats_guesses(attack, connections=40):
    """Passwords of a user of the cluster are guessed over NATS: each guess that is checked costs a PBKDF2."""
    refused, ends, names = [], time.monotonic() + GUESS_SECONDS, (USER, "nobody")

    def guess(number):
        while time.monotonic() < ends:
            try:
                with socket.create_connection(wire.address(attack.server.nats), timeout=20) as one:
                    one.sendall(f'CONNECT {{"user":"{names[number % 2]}","pass":"guess {number}","verbose":false}}\r\nPING\r\n'.encode())
                    said = b""
                    while part := one.recv(4096):
                        said += part
                    check(b"PONG" not in said, "a guess was accepted")
                    # With the delay of failed logins, the time for CONNECT may be over first.
                    refused.append(b"Authorization Violation" in said or b"Authentication Timeout" in said)
            except OSError:
                time.sleep(0.05)
    with attack.watched():
        threads = [threading.Thread(target=guess, args=(number,), daemon=True) for number in range(connections)]
        for thread in threads:
            thread.start()
        time.sleep(GUESS_SECONDS / 2)
        unharmed(attack)
        for thread in threads:
            thread.join(20)
    attack.figures.more["guesses answered"] = str(len(refused))
    check(sum(refused) == len(refused), f"{len(refused) - sum(refused)} of {len(refused)} guesses had no answer")
    cheap(attack)


def cells(Cell):
    return [
        Cell("row 15: 1,000 logins begun with SCRAM", half_open(1000, scram_begun), quick=True, settings=settings),
        Cell("row 15: 400 logins that stop in a frame of 500 KB", half_open(400, frame_begun), settings=settings),
        Cell("row 15: 2,000 connections that send a byte", half_open(2000, nothing_begun), settings=settings),
        Cell("row 15: 50 frames of 90 MiB before a login", too_long, quick=True, settings=settings),
        Cell("row 15: passwords guessed with PLAIN", guesses("PLAIN"), settings=settings),
        Cell("row 15: passwords guessed with SCRAM", guesses("SCRAM-SHA-256"), settings=settings),
        Cell("row 15: 1,000 NATS connections without CONNECT", nats_silent, settings=settings),
        Cell("row 15: passwords guessed over NATS", nats_guesses, settings=settings),
        Cell("row 15: messages repeated, and names of others", replayed, quick=True, settings=settings),
    ]
