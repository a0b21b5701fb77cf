"""Corners of a cluster of three, each test with processes of its own: reading from the nearest replica, TLS
between nodes, NATS clients on different nodes, cuts of the network, wrong folders and addresses,
min.insync.replicas, all nodes stopped at once, decommission, throttles of replication, two builds, clocks
that are hours apart.

Run by interop/corners.sh. Cuts need the right to make network namespaces, clocks need libfaketime. Without it
that test is skipped.
"""
import asyncio, json, os, random, shutil, signal, socket, subprocess, sys, tempfile, threading, time
os.environ.setdefault("BOOTSTRAP", "none")  # harness.py needs a value; these tests have their own
import nats
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
import harness, nodes
from builds import two_builds
from clocks import clock_makers, hours_apart
from harness import Failure, check, eventually, flushed, same
from load import CLIENT, WAIT_S, Load, Partition, close, create, judge, read_all
from nodes import Node, bootstrap, tailrace, three
from throttles import by_the_follower, by_the_leader

HERE = os.path.dirname(os.path.abspath(__file__))
CUT_S = 20
folder = None


def corner(name, action):
    """A test with a folder of its own. Its nodes end with it."""
    def run():
        global folder
        folder = tempfile.mkdtemp(prefix="interop-corner.")
        try:
            action()
        except BaseException:
            for node in nodes.everyone:
                print(f"--- {node.name}: {' | '.join(node.log().splitlines()[-3:]) if os.path.exists(node.log_path) else 'never started'}", file=sys.stderr)
            raise
        finally:
            nodes.end_all()
            if os.environ.get("KEEP"):
                print(f"data and logs: {folder}", file=sys.stderr)
            else:
                shutil.rmtree(folder, ignore_errors=True)
    harness.run(name, run)


# ---- reading from the nearest replica ----

class Reader:
    """Reads one partition without a group, and tells from which broker, by librdkafka's own account.
    librdkafka would wait a minute for a frozen broker."""

    def __init__(self, servers, topic, rack):
        self.broker, self.got, self.stopping = None, [], threading.Event()
        self.topic = topic
        self.consumer = Consumer({"bootstrap.servers": servers, "group.id": "unused", "enable.auto.commit": False, "client.rack": rack,
                                  "statistics.interval.ms": 200, "stats_cb": self.statistics, "fetch.wait.max.ms": 100, "socket.timeout.ms": 5000, **CLIENT})
        self.consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def statistics(self, text):
        self.broker = json.loads(text)["topics"].get(self.topic, {}).get("partitions", {}).get("0", {}).get("broker")

    def run(self):
        while not self.stopping.is_set():
            m = self.consumer.poll(0.1)
            if m is not None and not m.error():
                self.got.append((0, m.offset(), int(m.value())))

    def moves(self, seconds=WAIT_S):
        before, began = len(self.got), time.monotonic()
        eventually(lambda: len(self.got) > before + 20, "the reader gets records", seconds)
        return time.monotonic() - began

    def stop(self):
        self.stopping.set()
        self.thread.join()
        self.consumer.close()


def read_near(cluster, leader, near, rack):
    """Consumers other than librdkafka's get their records from the near replica, and none from the leader."""
    kafka = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{os.environ['KAFKA_LIBS']}/*", "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server",
             bootstrap(cluster), "--topic", "near", "--from-beginning", "--max-messages", "400", "--timeout-ms", "30000", "--command-property", f"client.rack={rack}"]
    for who, words in ("Kafka's consumer", kafka), ("franz-go", [os.environ["GO_BIN"], "read", "near", "400", rack]):
        before = [n.metric("tailrace_fetched_bytes_total") for n in (leader, near)]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, env={**os.environ, "BOOTSTRAP": leader.kafka})
        check(done.returncode == 0, f"{who}: {done.stderr[-400:]}")
        same([int(v) for v in done.stdout.split()], list(range(400)), f"what {who} read")
        after = [n.metric("tailrace_fetched_bytes_total") for n in (leader, near)]
        check(after[0] == before[0] and after[1] > before[1], f"{who}: bytes fetched from the leader {before[0]}..{after[0]}, from the near replica {before[1]}..{after[1]}")


def nearest_replica():
    cluster = three(folder, broker__rack=["a", "b", "c"], replica__selector__class="org.apache.kafka.common.replica.RackAwareReplicaSelector")
    create(cluster, "near")
    leader = Partition(cluster[0], "near").leader
    followers = [n for n in cluster if n.number != leader]
    near = followers[0]
    load = Load(bootstrap(cluster), "near")
    rack = {1: "a", 2: "b", 3: "c"}[near.number]
    load.moves(count=500)
    read_near(cluster, cluster[leader - 1], near, rack)
    reader = Reader(bootstrap(cluster), "near", rack)
    eventually(lambda: reader.broker == near.number, "the reader is sent to its own rack")
    served = near.metric("tailrace_fetched_bytes_total")
    reader.moves()
    check(near.metric("tailrace_fetched_bytes_total") > served, "the replica of its rack did not serve it")
    for fault in "kill", "freeze":
        near.kill() if fault == "kill" else near.signal(signal.SIGSTOP)
        eventually(lambda: reader.broker not in (near.number, -1), f"{fault}: the reader goes elsewhere", 60)
        print(f"  {fault}: the next records after {reader.moves(60):.1f} s", flush=True)
        near.start() if fault == "kill" else near.signal(signal.SIGCONT)
        eventually(lambda: near.number in Partition(cluster[leader - 1], "near").in_sync, f"{fault}: the replica is in sync again", 60)
        eventually(lambda: reader.broker == near.number, f"{fault}: the reader comes back to its own rack", 60)
        reader.moves()
    # The leader dies. The reader stays where it is, or the near replica becomes the leader.
    cluster[leader - 1].kill()
    load.moves()
    print(f"  the leader is killed: the next records after {reader.moves(60):.1f} s", flush=True)
    cluster[leader - 1].start()
    load.stop()
    eventually(lambda: len(reader.got) >= load.sent, "the reader gets everything")
    reader.stop()
    same([v for _, _, v in reader.got], sorted(v for _, _, v in load.acknowledged), "what the reader got, in order")
    judge(load, bootstrap(cluster))


# ---- TLS between nodes ----

def authority(name):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30", "-subj", f"/CN={name}", "-addext",
                    "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign", "-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.pem"],
                   check=True, capture_output=True)


def certificate(name, ca, usage="serverAuth,clientAuth", names="IP:127.0.0.1"):
    extensions = f"{folder}/{name}.ext"
    with open(extensions, "w") as file:
        file.write(f"subjectAltName={names}\nextendedKeyUsage={usage}\nkeyUsage=digitalSignature\n")
    subprocess.run(["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}", "-keyout", f"{folder}/{name}.key",
                    "-out", f"{folder}/{name}.csr"], check=True, capture_output=True)
    subprocess.run(["openssl", "x509", "-req", "-in", f"{folder}/{name}.csr", "-CA", f"{folder}/{ca}.pem", "-CAkey", f"{folder}/{ca}.key", "-CAcreateserial", "-days", "30",
                    "-extfile", extensions, "-out", f"{folder}/{name}.pem"], check=True, capture_output=True)
    os.chmod(f"{folder}/{name}.key", 0o600)


def shown(name, ca="nodes"):
    return {"tailrace.cluster.tls": "true", "tailrace.cluster.tls.certificate.file": f"{folder}/{name}.pem", "tailrace.cluster.tls.key.file": f"{folder}/{name}.key",
            "tailrace.cluster.tls.ca.file": f"{folder}/{ca}.pem"}


def peer_tls():
    authority("nodes")
    authority("strangers")
    for n in 1, 2, 3, 4:
        certificate(f"node{n}", "nodes")
    certificate("stranger", "strangers")
    certificate("client", "nodes", usage="clientAuth")
    certificate("elsewhere", "nodes", names="IP:127.9.9.9")
    cluster = three(folder, begin=False)
    for node in cluster:
        node.settings = shown(f"node{node.number}")
        node.start()
    create(cluster, "secret", 3)
    load = Load(bootstrap(cluster), "secret", 3)
    load.moves()

    def refused(what, settings, refuser="this_node"):
        before = sum(n.metric("tailrace_peer_refusals_total") for n in cluster)
        node = Node(folder, 4, [cluster[0].listen, cluster[1].listen], name=what, **settings)
        node.launch()
        try:
            eventually(lambda: sum(n.metric("tailrace_peer_refusals_total") for n in cluster) > before or node.process.poll() is not None, f"{what} is refused")
            words = eventually(lambda: [l for l in node.log().splitlines() if "trouble=" in l or "tailrace:" in l], f"{what}: the node says what is wrong")
            check(not node.is_ready(), f"{what} was let in")
            print(f"  {what}: {words[-1][-160:]}", flush=True)
        finally:
            node.kill()
    refused("stranger", shown("stranger", "strangers"))
    refused("stranger-who-trusts-us", shown("stranger"))
    refused("client-certificate", shown("client"))
    refused("plain", {})
    # A member that comes back with another certificate is not a member until it has its own again.
    third = cluster[2].stop()
    third.settings = shown("stranger")
    third.launch()
    load.moves()
    time.sleep(3)  # time with the wrong certificate
    same(Partition(cluster[0], "secret").in_sync.count(3) and third.metric("tailrace_peer_links"), 0, "links of the member with a wrong certificate")
    third.kill()
    third.settings = shown("elsewhere")  # the others dial 127.0.0.1
    third.launch()
    load.moves()
    eventually(lambda: any("tls" in l.lower() or "certificate" in l.lower() for n in cluster[:2] for l in n.log().splitlines()), "the log names the certificate")
    third.kill()
    third.settings = shown("node3")
    third.start()
    eventually(lambda: Partition(cluster[0], "secret").in_sync == [1, 2, 3], "the third node is in sync again", 60)
    # Clients that speak no TLS, or nonsense, to the port.
    for noise in b"GET / HTTP/1.1\r\n\r\n", b"TRPEER" + bytes(60), os.urandom(4096):
        with socket.create_connection(cluster[0].listen.split(":"), 5) as s:
            s.settimeout(10)
            s.sendall(noise)
            try:
                while s.recv(4096):
                    pass
            except ConnectionResetError:
                pass
    load.moves()
    load.stop()
    judge(load, bootstrap(cluster))
    # A fourth node with the right certificate is admitted.
    Node(folder, 4, [cluster[0].listen], name="fourth", **shown("node4")).start()


# ---- NATS clients on different nodes ----

async def at(node, *others, **options):
    async def quiet(_):
        pass
    options.setdefault("error_cb", quiet)
    return await asyncio.wait_for(nats.connect([f"nats://{n.nats}" for n in (node, *others)], connect_timeout=5, dont_randomize=True, reconnect_time_wait=0.1, **options), WAIT_S)


async def until(probe, what, seconds=WAIT_S):
    end = time.monotonic() + seconds
    while True:
        value = probe()
        value = await value if asyncio.iscoroutine(value) else value
        if value:
            return value
        check(time.monotonic() < end, f"not within {seconds} s: {what}")
        await asyncio.sleep(0.05)


async def hears(publisher, subject, subscription):
    """Interest travels: other nodes know of a subscriber shortly after its PONG."""
    async def probe():
        await publisher.publish(subject, b"probe")
        await flushed(publisher)
        try:
            await subscription.next_msg(0.2)
            return True
        except asyncio.TimeoutError:
            return False
    await until(probe, f"{subject} reaches the other node")
    try:
        while True:
            await subscription.next_msg(0.3)
    except asyncio.TimeoutError:
        pass


async def nats_between(cluster):
    one, two, three_ = [await at(n) for n in cluster]
    # Plain subscribers on every node get each message once.
    inboxes = [await c.subscribe("between.>") for c in (one, two, three_)]
    for c, inbox in zip((one, two, three_), inboxes):
        await flushed(c)
    for inbox in inboxes[1:]:
        await hears(one, "between.probe", inbox)
    for inbox in inboxes:
        while inbox.pending_msgs:
            await inbox.next_msg(1)
    for i in range(1000):
        await one.publish(f"between.{i}", b"%d" % i)
    for inbox in inboxes:
        same([int((await inbox.next_msg(WAIT_S)).data) for _ in range(1000)], list(range(1000)), "messages in order")
    await asyncio.sleep(0.5)
    same([i.pending_msgs for i in inboxes], [0, 0, 0], "more than that")
    # A queue group with members on two other nodes: each message goes to one of them.
    got = {2: [], 3: [], 1: []}

    def taker(number):
        async def take(m):
            got[number].append(int(m.data))
        return take
    await two.subscribe("jobs", "workers", taker(2))
    await three_.subscribe("jobs", "workers", taker(3))
    await flushed(two)
    await flushed(three_)

    async def known():
        await one.publish("jobs", b"-1")
        await flushed(one)
        return got[2] and got[3]
    await until(known, "both members of the group are known")
    await asyncio.sleep(0.5)  # the "-1"s that are still on their way arrive before the messages that are counted
    for g in got.values():
        g.clear()
    for i in range(1000):
        await one.publish("jobs", b"%d" % i)
    await until(lambda: sum(map(len, got.values())) >= 1000, "all jobs are done")
    await asyncio.sleep(0.5)
    same(sorted(got[2] + got[3]), list(range(1000)), "jobs")
    check(min(len(got[2]), len(got[3])) > 100, f"one member has nearly everything: {len(got[2])} and {len(got[3])}")
    # A member on the publisher's node gets all messages.
    local = await at(cluster[0])
    await local.subscribe("jobs", "workers", taker(1))
    await flushed(local)
    for g in got.values():
        g.clear()
    for i in range(200):
        await one.publish("jobs", b"%d" % i)
    await until(lambda: sum(map(len, got.values())) >= 200, "all jobs are done")
    same((len(got[1]), len(got[2]), len(got[3])), (200, 0, 0), "jobs by node, with a local member")
    await local.close()

    # Request and reply, and no responders.
    async def answer(m):
        await m.respond(b"answer to " + m.data)
    service = await three_.subscribe("ask", cb=answer)
    await flushed(three_)

    async def answered():
        try:
            return (await one.request("ask", b"x", timeout=5)).data == b"answer to x"
        except nats.errors.NoRespondersError:
            return False
    await until(answered, "the service on another node answers")
    for i in range(200):
        same((await (one, two)[i % 2].request("ask", b"%d" % i, timeout=5)).data, b"answer to %d" % i, "answer")
    await service.unsubscribe()
    await flushed(three_)

    async def gone():
        try:
            await one.request("ask", b"x", timeout=5)
        except nats.errors.NoRespondersError:
            return True
        return False
    await until(gone, "without the service there are no responders")
    check(await until(lambda: len(one.servers) >= 3 and one.servers, "the client knows all nodes"), "servers")
    return one, two, three_


async def nats_node_killed(cluster, one, two, three_):
    """The node of a subscriber is killed. The client goes to another one and gets what is published from then
    on. Queue members of the dead node get nothing."""
    moved = await at(cluster[2], cluster[1])
    inbox = await moved.subscribe("moved")
    await flushed(moved)
    await hears(one, "moved", inbox)
    done = []

    async def take(m):
        done.append(int(m.data))
    await two.subscribe("tasks", "crew", take)
    await moved.subscribe("tasks", "crew", take)
    await flushed(two)
    await flushed(moved)
    before = moved.connected_url.netloc
    cluster[2].kill()
    began = time.monotonic()
    await until(lambda: moved.is_connected and moved.connected_url.netloc != before, "the client of the killed node goes to another one")
    await flushed(moved)
    await hears(one, "moved", inbox)
    print(f"  a node is killed: its subscriber hears again after {time.monotonic() - began:.1f} s", flush=True)
    await flushed(two)
    for i in range(300):
        await one.publish("tasks", b"%d" % i)
    await until(lambda: len(done) >= 300, "every task is done by those that are left")
    same(sorted(done), list(range(300)), "tasks")
    cluster[2].start()
    back = await at(cluster[2])
    heard = await back.subscribe("moved")
    await flushed(back)
    await hears(one, "moved", heard)
    for c in one, two, three_, moved, back:
        await c.close()


def nats_clients():
    cluster = three(folder)

    async def run():
        await nats_node_killed(cluster, *await nats_between(cluster))
    asyncio.run(run())
    # A captured subject is published at a follower's node while the leader dies. Acknowledged messages must
    # exist.
    create(cluster, "events", tailrace__subjects="events.>")
    asyncio.run(captured(cluster))


async def captured(cluster):
    leader = Partition(cluster[0], "events").leader
    follower = next(n for n in cluster if n.number != leader)
    nc = await at(follower)
    acknowledged, unknown = [], []
    for i in range(400):
        if i == 100:
            cluster[leader - 1].kill()
        try:
            answer = json.loads((await nc.request(f"events.{i}", b"%d" % i, timeout=10)).data)
            (unknown if "error" in answer else acknowledged).append(i)
        except (nats.errors.TimeoutError, nats.errors.NoRespondersError):
            unknown.append(i)
    cluster[leader - 1].start()
    found = [v for _, _, v in read_all(bootstrap(cluster), "events")]
    same(len(found), len(set(found)), "records that exist once")
    same(sorted(set(acknowledged) - set(found)), [], "acknowledged and not there")
    check(len(unknown) <= 1, f"not acknowledged: {unknown}")
    same(sorted(set(found) - set(acknowledged) - set(unknown)), [], "never published")
    await nc.close()


# ---- cuts of a real network ----

class Network:
    """A namespace for each node on a bridge of its own. `remove` removes them."""

    def __init__(self, count):
        tag = f"{os.getpid() % 10_000}"
        self.bridge, self.names, self.subnet = f"trb{tag}", [f"tr{tag}n{n}" for n in range(1, count + 1)], f"10.{random.randrange(64, 128)}.{random.randrange(256)}"
        self.ip("link", "add", self.bridge, "type", "bridge")
        self.ip("addr", "add", f"{self.subnet}.254/24", "dev", self.bridge)
        self.ip("link", "set", self.bridge, "up")
        for n, name in enumerate(self.names, 1):
            self.ip("netns", "add", name)
            self.ip("link", "add", f"{name}h", "type", "veth", "peer", "name", "eth0", "netns", name)
            self.ip("link", "set", f"{name}h", "master", self.bridge, "up")
            for words in ["addr", "add", self.address(n) + "/24", "dev", "eth0"], ["link", "set", "eth0", "up"], ["link", "set", "lo", "up"]:
                self.ip("-n", name, *words)

    @staticmethod
    def ip(*words):
        subprocess.run(["ip", *words], check=True, capture_output=True)

    def address(self, n):
        return f"{self.subnet}.{n}"

    def within(self, n):
        return ["ip", "netns", "exec", self.names[n - 1]]

    def link(self, n, state):
        self.ip("link", "set", f"{self.names[n - 1]}h", state)

    def route(self, n, verb, *to):
        """Drops packets of one node to others, but not those of clients."""
        for other in to:
            self.ip("-n", self.names[n - 1], "route", verb, "blackhole", f"{self.address(other)}/32")

    def remove(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        subprocess.run(["ip", "link", "del", self.bridge], capture_output=True)


def may_make_namespaces():
    name = f"trtry{os.getpid()}"
    try:
        if subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode != 0:
            return False
    except FileNotFoundError:
        return False
    subprocess.run(["ip", "netns", "del", name], capture_output=True)
    return True


def cuts():
    network = Network(3)
    try:
        cluster = []
        for n in 1, 2, 3:
            seeds = [cluster[0].listen] if cluster else []
            cluster.append(Node(folder, n, seeds, network.address(n), network.within(n), ports=[9092, 4222, 8222, 7091]).start())
        create(cluster, "cuts", 6)
        load = Load(bootstrap(cluster), "cuts", 6)
        load.moves()

        def leader():
            return Partition(cluster[0], "cuts").leader

        def healed():
            eventually(lambda: all(Partition(n, "cuts", p).in_sync == [1, 2, 3] for n in cluster for p in range(6)), "all replicas are in sync again", 60)
            load.moves()

        def while_cut(what, victim, cut, heal):
            cut()
            began = time.monotonic()
            first = load.moves(60, 200)
            while time.monotonic() - began < CUT_S:
                load.moves(60, 200)
            heal()
            healed()
            print(f"  {what} (node {victim}): 200 more records after {first:.1f} s, whole again {time.monotonic() - began - CUT_S:.1f} s after its end", flush=True)
        victim = leader()
        while_cut("link down", victim, lambda: network.link(victim, "down"), lambda: network.link(victim, "up"))
        victim, others = leader(), [n for n in (1, 2, 3) if n != leader()]
        while_cut("cut off from the nodes, not from clients", victim, lambda: network.route(victim, "add", *others), lambda: network.route(victim, "del", *others))
        victim = leader()
        other = next(n for n in (1, 2, 3) if n != victim)
        while_cut(f"cut off from node {other} only", victim, lambda: network.route(victim, "add", other), lambda: network.route(victim, "del", other))
        load.stop()
        judge(load, bootstrap(cluster))
    finally:
        nodes.end_all()
        network.remove()


# ---- foreign folders, numbers, addresses and bytes ----

def strangers():
    """Folders, numbers, addresses and bytes that do not belong here. Each is refused with a reason, and the
    cluster goes on."""
    cluster = three(folder)
    create(cluster, "kept", 3)
    load = Load(bootstrap(cluster), "kept", 3)
    load.moves()

    def says(what, text, *words):
        """The first line with one of these words, which must exist."""
        line = next((l for l in text.splitlines() if any(w in l for w in words)), None)
        check(line, f"{what}: nothing says {words}: {text[-500:]}")
        print(f"  {what}: {line[-220:]}", flush=True)
    # A copy of a folder in use, under the same number and under another one.
    shutil.copytree(cluster[2].data, f"{folder}/copy")
    copy = Node(folder, 3, [cluster[0].listen], name="copy")
    says("a copy of a running node's folder", copy.refuses_to_start(), "another node with id 3 is running")
    other = Node(folder, 5, [cluster[0].listen], name="copy")
    says("a folder of another node", other.refuses_to_start(), "node 3", "node id", "node=3")
    # A node of this number exists: an empty folder does not take its place.
    again = Node(folder, 2, [cluster[0].listen], name="again")
    again.launch()
    time.sleep(4)  # less than broker.session.timeout.ms
    check(not again.is_ready(), "a second node 2 was let in")
    says("a second node 2", again.last_words(), "2")
    again.kill()
    load.moves()
    # A folder of another cluster.
    foreign = Node(folder, 4, name="foreign").start().stop()
    foreign.seeds = [cluster[0].listen]
    foreign.start()
    eventually(lambda: "a seed is not a node of this node's cluster" in foreign.log(), "the node of another cluster says so")
    says("a node of another cluster", foreign.log(), "a seed is not a node of this node's cluster")
    same(describe(foreign), [4], "nodes of the other cluster")
    foreign.kill()
    same(len(describe(cluster[0])), 3, "nodes of the cluster")
    # A list of seeds that names only the node itself: it is the first of the list, and founds a cluster.
    lonely = Node(folder, 6, name="lonely")
    lonely.seeds = [lonely.listen]
    lonely.start()
    says("a node whose only seed is itself", lonely.log(), "founds a cluster")
    same(describe(lonely), [6], "nodes of its cluster")
    lonely.kill()
    # Garbage at the port for nodes.
    for noise in b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"TRPEER" + b"\xff" * 60, os.urandom(1 << 16), b"TRPEER" + (1).to_bytes(2, "little") * 2 + (48).to_bytes(2, "little") + bytes(48):
        for node in cluster:
            host, port = node.listen.split(":")
            with socket.create_connection((host, int(port)), 5) as s:
                s.settimeout(10)
                try:
                    s.sendall(noise)
                    s.shutdown(socket.SHUT_WR)
                    while s.recv(4096):
                        pass
                except OSError:  # closed before everything was sent
                    pass
    load.moves()
    load.stop()
    judge(load, bootstrap(cluster))
    same(describe(cluster[0]), [1, 2, 3], "nodes of the cluster")
    for node in cluster:
        check("panicked" not in node.log(), f"{node.name} panicked")
        node.stop()
    # The folder of another node's partition in place of its own.
    shutil.rmtree(f"{cluster[1].data}/kept-0")
    shutil.copytree(f"{cluster[0].data}/kept-0", f"{cluster[1].data}/kept-0")
    for node in cluster[0], cluster[2]:
        node.launch()
    for node in cluster[0], cluster[2]:
        node.ready()
    cluster[1].launch()
    eventually(lambda: cluster[1].process.poll() is not None or cluster[1].is_ready(), "the node with a replica of another one starts or ends")
    print(f"  a replica's folder of another node: ready {cluster[1].is_ready()}: {[l for l in cluster[1].log().splitlines() if 'kept-0' in l][-1:] or cluster[1].last_words()}", flush=True)
    judge(load, bootstrap([cluster[0], cluster[2]]))


def describe(node):
    admin = AdminClient({"bootstrap.servers": node.kafka, **CLIENT})
    return sorted(n.id for n in admin.describe_cluster(request_timeout=10).result().nodes)


# ---- fewer replicas than required ----

def too_few_in_sync():
    cluster = three(folder)
    create(cluster, "all", min__insync__replicas="3")
    create(cluster, "most", min__insync__replicas="2")
    load = Load(bootstrap(cluster), "all")
    load.moves()
    victim = next(n for n in cluster if n.number != Partition(cluster[0], "all").leader)
    victim.kill()

    def once(topic, **config):
        """The error of one record, or None."""
        errors = []
        p = Producer({"bootstrap.servers": bootstrap([n for n in cluster if n is not victim]), "retries": 0, "message.timeout.ms": 20_000, **CLIENT, **config})
        p.produce(topic, b"-1", partition=0, on_delivery=lambda e, _: errors.append(e))
        check(p.flush(25) == 0, "no answer")
        return errors[0] and errors[0].name()
    began = time.monotonic()
    eventually(lambda: once("all") == "NOT_ENOUGH_REPLICAS", "a producer is refused with NOT_ENOUGH_REPLICAS", 30)
    print(f"  refused {time.monotonic() - began:.1f} s after the kill", flush=True)
    same(once("most"), None, "with min.insync.replicas=2")
    stood = len(load.acknowledged)
    same(once("all", acks=1), None, "with acks=1")
    time.sleep(2)
    check(len(load.acknowledged) == stood, "acks=all was acknowledged with two of three replicas")
    victim.start()
    print(f"  goes on {load.moves(60):.1f} s after the node is ready", flush=True)
    load.stop()
    # Each of the lonely records exists at most as often as it was sent; those of the load once.
    found = [v for _, _, v in read_all(bootstrap(cluster), "all") if v >= 0]
    same(found, sorted(v for _, _, v in load.acknowledged), "the load's records, in order")


# ---- all nodes stop ----

def all_stop():
    """SIGTERM for all nodes at once, under load and with a group. No node is left to hand over to, and no
    node waits for one."""
    cluster = three(folder)
    create(cluster, "stopping", 6)
    load = Load(bootstrap(cluster), "stopping", 6)
    for turn in range(3):
        consumer = Consumer({"bootstrap.servers": bootstrap(cluster), "group.id": "g", "auto.offset.reset": "earliest", **CLIENT})
        consumer.subscribe(["stopping"])
        eventually(lambda: consumer.poll(0.1), "the group reads")
        load.moves(60)
        began = time.monotonic()
        for node in cluster:
            node.signal(signal.SIGTERM)
        for node in cluster:
            same(node.process.wait(nodes.STOP_SECONDS_MAX), 0, f"exit of {node.name}")
        print(f"  all stopped after {time.monotonic() - began:.1f} s", flush=True)
        for node in cluster:
            node.launch()
        for node in cluster:
            node.ready()
        load.moves(60)
        close(consumer, bootstrap(cluster), "g")
    load.stop()
    judge(load, bootstrap(cluster))


# ---- taking a node out ----

def decommissioned():
    cluster = three(folder)
    create(cluster, "moving", 12)
    load = Load(bootstrap(cluster), "moving", 12)
    load.moves(count=2000)
    fourth = Node(folder, 4, [cluster[0].listen]).start()
    leaving = next(n for n in cluster if n.number == Partition(cluster[0], "moving").leader)
    rest = [n for n in [*cluster, fourth] if n is not leaving]
    with open(f"{folder}/decommission", "w") as said:
        command = subprocess.Popen([nodes.BINARY, "cluster", "decommission", str(leaving.number), "-b", bootstrap(rest[:1]), "--wait", "3m"], stdin=subprocess.DEVNULL, stdout=said, stderr=said)

    def words():
        with open(f"{folder}/decommission") as file:
            return file.read()
    try:
        eventually(lambda: command.poll() is not None or "stop" in words().lower(), "the command says that the node may be stopped", 90)
        check(command.poll() is None, f"the command ended with {command.poll()}: {words()}")
        for p in range(12):
            check(leaving.number not in Partition(rest[0], "moving", p).replicas, f"partition {p} is still on the node")
        load.moves()
        leaving.stop()
        check(command.wait(60) == 0, words())
    finally:
        command.kill()
    print("  " + " | ".join(words().strip().splitlines()[-4:]), flush=True)
    load.moves()
    eventually(lambda: describe(rest[0]) == sorted(n.number for n in rest), "the node is forgotten")
    eventually(lambda: all(Partition(rest[0], "moving", p).in_sync == sorted(n.number for n in rest) for p in range(12)), "three replicas of everything are in sync")
    # The folder of a decommissioned node is no longer a member's.
    leaving.seeds = [rest[0].listen]
    said = leaving.refuses_to_start()
    check("was removed from the cluster" in said, said)
    print(f"  started again: {said[-220:]}", flush=True)
    same(describe(rest[0]), sorted(n.number for n in rest), "nodes of the cluster")
    shutil.rmtree(leaving.data)
    leaving.start()
    eventually(lambda: describe(rest[0]) == [1, 2, 3, 4], "with an empty folder it joins as a new member")
    load.moves()
    load.stop()
    judge(load, bootstrap(rest))


harness.TEST_SECONDS_MAX = 300
harness.at_end.append(nodes.end_all)
corner("the nearest replica", nearest_replica)
corner("TLS between nodes", peer_tls)
corner("NATS clients on three nodes", nats_clients)
if may_make_namespaces():
    corner("cuts of the network", cuts)
else:
    print("SKIP cuts of the network: no right to make network namespaces", flush=True)
corner("folders, numbers and bytes that do not belong here", strangers)
corner("min.insync.replicas=3 with two nodes", too_few_in_sync)
corner("all nodes are told to stop at once", all_stop)
corner("a node is taken out under load", decommissioned)
corner("replication throttled by leaders, through Kafka's tool", lambda: by_the_leader(folder))
corner("replication throttled by a follower", lambda: by_the_follower(folder))
corner("two builds, the second with a raised level", lambda: two_builds(folder))
if clock_makers():
    corner("clocks that are hours apart", lambda: hours_apart(folder))
else:
    print("SKIP clocks that are hours apart: libfaketime is not installed", flush=True)
sys.exit(1 if harness.failed else 0)
