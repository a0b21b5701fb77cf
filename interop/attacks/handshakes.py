"""Attacks on the TLS handshake: by those who stop in it, and by those who make one after the other.

Kafka clients have two listeners. The prober is on the one without TLS, strangers are on the other. The time for a
handshake is shorter than by default, so that cells are short. None is for debug builds, in which 1,500 handshakes
take seconds of CPU.
"""
import socket, ssl, struct, subprocess, threading, time
import wire
from logins import CPU_SECONDS_MAX, LINE_BYTES
from measure import HERE, check

HANDSHAKE_SECONDS, STORM_SECONDS = 3, 5
# HANDSHAKES_MAX in crates/tls: of more than these the oldest end.
UNDER_WAY_MAX = 1024
# What all of them may take. Each may have sent 16 KiB, and the server keeps its own messages, too.
RESIDENT_MIB_MAX = 96
# A handshake of an honest client, while the attack is on.
SECONDS_MAX = 1
CERTIFICATES = HERE / "target/certificates"


def settings():
    if not (CERTIFICATES / "server.pem").exists() or time.time() - (CERTIFICATES / "server.pem").stat().st_mtime > 86_400:
        CERTIFICATES.mkdir(parents=True, exist_ok=True)
        subprocess.run([HERE.parent / "nats/certificates.sh", str(CERTIFICATES)], check=True, capture_output=True)
    return ["listeners=PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0", f"tailrace.tls.certificate.file={CERTIFICATES}/server.pem", f"tailrace.tls.key.file={CERTIFICATES}/server.key",
            f"tailrace.tls.handshake.timeout.ms={HANDSHAKE_SECONDS * 1000}"]


def context():
    return ssl.create_default_context(cafile=str(CERTIFICATES / "ca.pem"))


def hello():
    """The first message of an honest client."""
    out = ssl.MemoryBIO()
    try:
        context().wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        return out.read()
    raise AssertionError("a handshake without a server")


def honest(attack):
    """The time in which an honest client completes a handshake."""
    began = time.monotonic()
    with socket.create_connection(wire.address(attack.server.tls), timeout=20) as plain, context().wrap_socket(plain, server_hostname="localhost"):
        return time.monotonic() - began


def unharmed(attack):
    took = honest(attack)
    attack.figures.more["a handshake of another"] = f"{took * 1000:.0f} ms"
    check(took <= SECONDS_MAX, f"a handshake of another client took {took:.1f} s")


def cheap(attack):
    check(attack.figures.cpu_seconds <= CPU_SECONDS_MAX, f"{attack.figures.cpu_seconds:.1f} s of CPU, more than {CPU_SECONDS_MAX}")


def stopped(count, said):
    """This many connections that begin a handshake and do not go on."""
    def play(attack):
        attack.figures.log_free = count * LINE_BYTES
        first = said()
        with attack.watched():
            for _ in range(count):
                attack.send(attack.stranger(attack.server.tls), first)
            check(attack.until(lambda: sum(one.closed for one in attack.strangers) >= count - UNDER_WAY_MAX, 20), "more handshakes than allowed are under way")
            unharmed(attack)
            check(attack.until(lambda: all(one.closed for one in attack.strangers), HANDSHAKE_SECONDS + 20), "not all connections were closed after the time for a handshake")
        attack.figures.more["connections"] = str(count)
        check(attack.figures.resident <= RESIDENT_MIB_MAX, f"{attack.figures.resident:.0f} MiB resident, more than {RESIDENT_MIB_MAX}")
        cheap(attack)
    return play


def half_a_record():
    """Most of a record, as long as records of a handshake may be."""
    return struct.pack(">BHH", 22, 0x0301, 16_000) + bytes([1, 0, 62, 124]) + bytes(15_900)


def storm(attack, connections=4):
    """Handshakes one after the other. Each costs the server a signature."""
    made, ends = [], time.monotonic() + STORM_SECONDS

    def make():
        while time.monotonic() < ends:
            made.append(honest(attack))
    with attack.watched():
        threads = [threading.Thread(target=make, daemon=True) for _ in range(connections)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    check(len(made) > 10, f"only {len(made)} handshakes were made")
    attack.figures.more["handshakes"] = f"{len(made)}, longest {max(made) * 1000:.0f} ms"


def cells(Cell):
    return [
        Cell("row 16: 1,500 TLS handshakes that stop after the first message", stopped(1500, hello), settings=settings),
        Cell("row 16: 1,500 TLS handshakes that stop in a record of 16 KB", stopped(1500, half_a_record), settings=settings),
        Cell("row 16: TLS handshakes, one after the other", storm, settings=settings),
    ]
