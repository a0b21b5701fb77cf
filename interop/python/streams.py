"""Kafka Streams and Kafka Connect, each in processes of their own. Run by interop/run.sh."""
import json, os, shutil, signal, subprocess, sys, tempfile, time, urllib.error, urllib.request
import harness, wordcount
from fleet import in_parallel
from groups import admin
from harness import BOOTSTRAP, REPLICAS, SMOKE, check, same, server
from ports import free_ports

JAVA = ["java", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", wordcount.CLASSPATH]


def words():
    print("  " + wordcount.run(2 if SMOKE else 10, 0, 1 if SMOKE else 2), flush=True)


def smoke_test():
    result = subprocess.run([*JAVA, "tailrace.interop.StreamsSmoke", "20" if SMOKE else "40"], capture_output=True, text=True, timeout=400)
    check(result.returncode == 0 and "smoke test passed" in result.stdout, f"exit {result.returncode}: {result.stdout[-1500:]} {result.stderr[-500:]}")


COMMON = f"""bootstrap.servers={BOOTSTRAP}
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
offset.flush.interval.ms=500
plugin.discovery=service_load
"""


class Worker:
    """A Connect worker."""

    def __init__(self, kind, folder, *files):
        self.command = [*JAVA, f"org.apache.kafka.connect.cli.Connect{kind}", *files]
        self.log = f"{folder}/worker.log"
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=open(self.log, "ab"), stderr=subprocess.STDOUT)

    def end(self, how):
        self.process.send_signal(how)
        try:
            self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise harness.Failure("the worker did not stop")

    def until(self, probe, what, seconds=90):
        end = time.monotonic() + seconds
        while not probe():
            check(self.process.poll() is None, f"{what}: the worker ended: {open(self.log, errors='replace').read()[-500:]}")
            check(time.monotonic() < end, f"not within {seconds} s: {what}")
            time.sleep(0.2)


def lines(path):
    return open(path).read().splitlines() if os.path.exists(path) else []


def append(path, first, last):
    with open(path, "a") as f:
        f.writelines(f"line {n}\n" for n in range(first, last))


def wanted(count):
    return [f"line {n}" for n in range(count)]


def standalone():
    folder = tempfile.mkdtemp(prefix="interop-connect.")
    source, sink, topic = f"{folder}/in", f"{folder}/out", f"connect-{time.time_ns()}"
    files = {"worker": f"{COMMON}offset.storage.file.filename={folder}/offsets\nlisteners=http://127.0.0.1:{free_ports(1)[0]}\n",
             "source": f"name=source-{topic}\nconnector.class=FileStreamSource\nfile={source}\ntopic={topic}\n",
             "sink": f"name=sink-{topic}\nconnector.class=FileStreamSink\nfile={sink}\ntopics={topic}\n"}
    for name, text in files.items():
        open(f"{folder}/{name}", "w").write(text)
    append(source, 0, 2000)
    worker = Worker("Standalone", folder, *(f"{folder}/{name}" for name in files))
    try:
        worker.until(lambda: len(lines(sink)) >= 2000, "2000 lines went through")
        same(lines(sink), wanted(2000), "lines")
        worker.end(signal.SIGTERM)
        append(source, 2000, 3000)
        worker.start()
        worker.until(lambda: len(lines(sink)) >= 3000, "1000 more after a restart of the worker")
        same(lines(sink), wanted(3000), "lines after a restart of the worker")
        if not SMOKE:
            server("restart", "KILL")
            append(source, 3000, 4000)
            worker.until(lambda: len(set(lines(sink))) >= 4000, "1000 more after a kill of the server")
            same(sorted(set(lines(sink))), sorted(wanted(4000)), "lines after a kill of the server")
        worker.end(signal.SIGTERM)
    finally:
        if worker.process.poll() is None:
            worker.process.kill()
            worker.process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def distributed():
    """Internal compacted topics, and a source whose offsets are a part of its transactions."""
    folder, [port] = tempfile.mkdtemp(prefix="interop-connect."), free_ports(1)
    source, sink, topic = f"{folder}/in", f"{folder}/out", f"connect-{time.time_ns()}"
    open(f"{folder}/worker", "w").write(f"""{COMMON}group.id=workers-{topic}
listeners=http://127.0.0.1:{port}
exactly.once.source.support=enabled
session.timeout.ms=6000
heartbeat.interval.ms=500
scheduled.rebalance.max.delay.ms=0
""" + "".join(f"{n}.storage.topic={topic}-{n}\n{n}.storage.replication.factor={REPLICAS}\n" for n in ("config", "offset", "status")))

    def rest(method, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"}, method=method)
        try:
            return json.loads(urllib.request.urlopen(request, timeout=30).read() or b"null")
        except (urllib.error.URLError, ConnectionError) as error:
            return {"error": str(error)}

    def running(name):
        status = rest("GET", f"/connectors/{name}/status")
        return [t["state"] for t in status.get("tasks", [])] == ["RUNNING"]
    append(source, 0, 2000)
    worker = Worker("Distributed", folder, f"{folder}/worker")
    try:
        worker.until(lambda: isinstance(rest("GET", "/connectors"), list), "the worker answers")
        worker.until(lambda: "name" in rest("PUT", "/connectors/source/config", {"connector.class": "FileStreamSource", "file": source, "topic": topic, "tasks.max": "1"}), "source made")
        worker.until(lambda: "name" in rest("PUT", "/connectors/sink/config", {"connector.class": "FileStreamSink", "file": sink, "topics": topic, "tasks.max": "1",
                                                                               "consumer.override.isolation.level": "read_committed"}), "sink made")
        worker.until(lambda: running("source") and running("sink"), "both run")
        worker.until(lambda: len(lines(sink)) >= 2000, "2000 lines went through")
        same(lines(sink), wanted(2000), "lines")
        worker.end(signal.SIGKILL)
        append(source, 2000, 3000)
        worker.start()
        worker.until(lambda: len(set(lines(sink))) >= 3000, "1000 more after a kill of the worker")
        same(list(dict.fromkeys(lines(sink))), wanted(3000), "lines after a kill of the worker")
        same(sorted(rest("GET", "/connectors")), ["sink", "source"], "connectors read back from the compacted topic")
        found = wordcount.Consumer({**wordcount.NAMES, "group.id": "reader", "isolation.level": "read_committed", "enable.partition.eof": True})
        found.assign([wordcount.TopicPartition(topic, 0, 0)])
        values, end = [], False
        while not end:
            for m in found.consume(1000, 5):
                end = end or bool(m.error())
                values += [] if m.error() else [m.value().decode()]
        found.close()
        same(values, wanted(3000), "each line once in the topic, as the source is exactly once")
        worker.end(signal.SIGTERM)
    finally:
        if worker.process.poll() is None:
            worker.process.kill()
            worker.process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def main():
    jobs = [("streams: word count exactly once, its state restored after kills", words), ("connect: standalone, file source and sink", standalone)]
    if not SMOKE:
        jobs += [("streams: its own smoke test, exactly once, instances come and go", smoke_test), ("connect: distributed, exactly-once source", distributed)]
    # One restarts the server, so they go one by one.
    in_parallel(jobs, 1)
    sys.exit(1 if harness.failed else 0)


if __name__ == "__main__":
    main()
