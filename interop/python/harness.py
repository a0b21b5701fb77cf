"""Runs named tests and prints one line for each. Deliberately tiny: no fixtures, no discovery."""
import faulthandler, os, re, signal, subprocess, sys, threading, time, traceback

# Not set if a suite starts its own servers.
BOOTSTRAP = os.environ.get("BOOTSTRAP")
SMOKE = os.environ.get("INTEROP_MODE") == "smoke"
# For topics that tests make. There are as many nodes.
REPLICAS = int(os.environ.get("INTEROP_REPLICAS", "1"))
# Kafka acknowledges a creation before the partitions have their leaders. tailrace must not need this
# patience.
LEADERS_LATE = os.environ.get("INTEROP_TARGET") == "kafka"
ONLY = re.compile(os.environ.get("ONLY", ""))
# A test that hangs is a failed test. Restarting a JVM broker takes up to 20 s on a loaded machine.
TEST_SECONDS_MAX = 120
# A call into a C library is not interrupted. After as long again the whole suite ends.
STUCK_SECONDS = 30
# Called by a suite that ends itself, so that its servers end too.
at_end = []
failed = 0


class Failure(Exception):
    pass


def check(condition, message):
    if not condition:
        raise Failure(message)


def same(got, want, what):
    if got != want:
        raise Failure(f"{what}: got {shorten(got)}, want {shorten(want)}")


def shorten(x):
    text = repr(x)
    return text if len(text) < 300 else f"{text[:280]}... ({len(text)} characters)"


def raises(kind, action, what):
    """The error that `action` raises; `kind` is a text it must contain, or an exception class."""
    try:
        action()
    except Exception as error:
        if isinstance(kind, str):
            check(kind in f"{type(error).__name__} {error!r} {error}", f"{what}: want {kind}, got {error!r}")
        else:
            check(isinstance(error, kind), f"{what}: want {kind.__name__}, got {error!r}")
        return error
    raise Failure(f"{what}: no error")


def run(name, action, *args):
    global failed
    if not ONLY.search(name):
        return

    def late(*_):
        raise Failure(f"not done after {TEST_SECONDS_MAX} s")

    def stuck():
        print(f"FAIL {name}: a call does not come back, {TEST_SECONDS_MAX + STUCK_SECONDS} s after its test began", flush=True)
        faulthandler.dump_traceback(all_threads=True)
        for end in at_end:
            end()
        os._exit(1)
    watch = threading.Timer(TEST_SECONDS_MAX + STUCK_SECONDS, stuck)
    watch.daemon = True
    watch.start()
    signal.signal(signal.SIGALRM, late)
    signal.alarm(TEST_SECONDS_MAX)
    began = time.monotonic()
    try:
        action(*args)
        print(f"PASS {name} ({time.monotonic() - began:.1f} s)", flush=True)
    except Exception as error:
        failed += 1
        print(f"FAIL {name}: {error!r}", flush=True)
        traceback.print_exc(file=sys.stderr)
    finally:
        signal.alarm(0)
        watch.cancel()


def eventually(probe, what, seconds=20):
    """Waits until `probe` returns something true. Metadata may lag behind an admin call."""
    end = time.monotonic() + seconds
    while True:
        why = ""
        try:
            value = probe()
        except Failure as error:
            value, why = None, f": {error}"
        if value:
            return value
        check(time.monotonic() < end, f"not within {seconds} s: {what}{why}")
        time.sleep(0.1)


async def flushed(connection):
    """Waits until the server has processed what a nats-py connection was asked to send. Its flush writes PING
    at once, but a task of its own writes what was asked for before. So only the second answer comes after
    that."""
    await connection.flush()
    await connection.flush()


def server(*command):
    """Stops or starts the server under test: stop, again, restart, each with an optional signal."""
    verb, *rest = command
    subprocess.run([os.environ["INTEROP_SERVER"], verb, os.environ["INTEROP_STATE"], *rest], check=True, stdout=subprocess.DEVNULL)
