"""Users and rules on three nodes, at both doors, controllers that are killed, and the way from an open cluster to a
closed one: run by interop/security-nodes.sh."""
import logging, os, re, sys, threading, time
from glob import glob
from pathlib import Path

import confluent_kafka as ck

os.environ["TAILRACE_FIRST_PASSWORD"] = "admin-secret"
import harness  # noqa: E402
from harness import Failure, check, eventually, run  # noqa: E402
from nodes import bootstrap, end_all, tailrace, three  # noqa: E402
from security_talkers import Publisher, Subscriber, Talker, is_refused  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "raw"))
import kproto  # noqa: E402

logging.disable()
FOLDER = os.environ["NODES_FOLDER"]
SCHEMA = kproto.Schema(glob(os.environ["KAFKA_LIBS"] + "/kafka-clients-*.jar")[0])
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
CLOSED = {"tailrace__kafka__authentication": "required", "authorizer__class__name": AUTHORIZER, "super__users": "User:admin", "tailrace__first__user": "admin",
          "default__replication__factor": "3"}
TOPIC, LITERAL, ALLOW, WRITE, READ, ALL = 2, 3, 3, 4, 3, 2
# How long a change may take, and how long while a controller is elected.
SPREAD_SECONDS_MAX, ELECTION_SECONDS_MAX = 1, 30
CHANGES, KILLS, RULES = 20, 4, 60
TOPIC_REFUSED, LOGIN_FAILED = 29, 58


# ---- raw connections ----

def login(address, user, password):
    one = kproto.Conn(SCHEMA, address, 10)
    one.call("SaslHandshake", 1, {"Mechanism": "PLAIN"})
    answer = one.call("SaslAuthenticate", 2, {"AuthBytes": f"\0{user}\0{password}".encode()})
    if answer["ErrorCode"]:
        raise Failure(f"login of {user}: {answer['ErrorCode']}")
    return one


def admin(node):
    return login(node.kafka, "admin", "admin-secret")


def rule(user, name, operation=WRITE):
    return {"ResourceType": TOPIC, "ResourceName": name, "ResourcePatternType": LITERAL, "Principal": f"User:{user}", "Host": "*", "Operation": operation, "PermissionType": ALLOW}


def add(connection, rules):
    answer = connection.call("CreateAcls", 3, {"Creations": rules})
    check(not any(one["ErrorCode"] for one in answer["Results"]), f"rules are not taken: {answer['Results'][:2]}")


def drop(connection, user):
    anything = {"ResourceTypeFilter": 1, "ResourceNameFilter": None, "PatternTypeFilter": 1, "PrincipalFilter": f"User:{user}", "HostFilter": None, "Operation": 1, "PermissionType": 1}
    answer = connection.call("DeleteAcls", 3, {"Filters": [anything]})
    check(answer["FilterResults"][0]["ErrorCode"] == 0, f"rules are not removed: {answer}")


def count_rules(connection, user):
    anything = {"ResourceTypeFilter": 1, "ResourceNameFilter": None, "PatternTypeFilter": 1, "PrincipalFilter": f"User:{user}", "HostFilter": None, "Operation": 1, "PermissionType": 1}
    return sum(len(one["Acls"]) for one in connection.call("DescribeAcls", 3, anything)["Resources"])


def may_see(connection, name):
    answer = connection.call("Metadata", 12, {"Topics": [{"TopicId": bytes(16), "Name": name}], "AllowAutoTopicCreation": False})
    return answer["Topics"][0]["ErrorCode"] != TOPIC_REFUSED


def add_user(node, user):
    os.environ["TAILRACE_PASSWORD"] = "admin-secret"
    secret = Path(FOLDER) / "secret"
    secret.write_text(f"{user}-secret")
    tailrace("user", "add", user, "--password-file", str(secret), "--bootstrap", node.kafka, "--sasl-user", "admin")


def controller(nodes):
    """The node that leads the metadata, as the others see it."""
    for node in nodes:
        if node.process.poll() is not None:
            continue
        try:
            answer = admin(node).call("DescribeQuorum", 1, {"Topics": [{"TopicName": "__cluster_metadata", "Partitions": [{"PartitionIndex": 0}]}]})
        except (OSError, kproto.Closed, Failure):
            continue
        leader = answer["Topics"][0]["Partitions"][0]["LeaderId"]
        found = [one for one in nodes if one.number == leader and one.process.poll() is None]
        if found:
            return found[0]
    return None


# ---- tests ----

def create_spread(connection):
    connection.call("CreateTopics", 7, {"Topics": [{"Name": "spread", "NumPartitions": 1, "ReplicationFactor": 3}], "timeoutMs": 10_000})


def spreads(nodes):
    """Rules that are changed on one node in turn hold on all of them."""
    add_user(nodes[0], "alice")
    admins = [admin(node) for node in nodes]
    readers = [eventually(lambda node=node: attempt(lambda: login(node.kafka, "alice", "alice-secret")), "alice may log in") for node in nodes]
    create_spread(admins[0])
    times = []
    for number in range(CHANGES):
        wanted = number % 2 == 0
        began = time.monotonic()
        if wanted:
            add(admins[number % 3], [rule("alice", "spread")])
        else:
            drop(admins[number % 3], "alice")
        left = set(range(len(nodes)))
        while left:
            left -= {at for at in left if may_see(readers[at], "spread") == wanted}
            check(time.monotonic() - began < 10, f"change {number} does not hold on nodes {left} after 10 s")
        times.append(time.monotonic() - began)
    times.sort()
    print(f"  a rule holds on all three nodes after {times[len(times) // 2] * 1000:.0f} ms (median of {CHANGES} changes, the request included), {times[-1] * 1000:.0f} ms (longest)", flush=True)
    check(times[-1] <= SPREAD_SECONDS_MAX, f"a change took {times[-1]:.2f} s")


def spreads_to_nats(nodes):
    """The same for NATS clients: what they may publish and hear, and the subscriptions that they have."""
    add_user(nodes[0], "erin")
    admins, voices = [admin(node) for node in nodes], [Talker(node, "admin") for node in nodes]
    create_spread(admins[0])
    talkers = [eventually(lambda node=node: attempt_nats(lambda: Talker(node, "erin")), "erin may log in") for node in nodes]
    times, taken = [], []
    for number in range(CHANGES):
        wanted, at = number % 2 == 0, number % 3
        if wanted:
            add(admins[at], [rule("erin", "spread"), rule("erin", "spread", READ)])
        else:
            drop(admins[at], "erin")
        began = time.monotonic()
        left = set(range(len(nodes)))
        while left:
            left -= {one for one in left if talkers[one].may_publish("spread") == wanted == talkers[one].may_hear("spread")}
            check(time.monotonic() - began < 10, f"change {number} does not hold for NATS clients of nodes {left} after 10 s")
        times.append(time.monotonic() - began)
        if wanted:
            heard_by_all(talkers, voices[at], b"allowed %d" % number)
        else:
            # The subscriptions were taken away before: `may_hear` waits for PONG.
            for one, talker in enumerate(talkers):
                voices[one].publish("spread", b"denied %d" % number)
                talker.may_hear("spread")
                taken += [data for data in talker.heard if data.startswith(b"denied")]
    check(not taken, f"heard after the rule was taken away: {taken[:3]}")
    times.sort()
    print(f"  a rule holds for NATS clients of all three nodes after {times[len(times) // 2] * 1000:.0f} ms (median of {CHANGES} changes, from the answer on), {times[-1] * 1000:.0f} ms (longest)", flush=True)
    check(times[-1] <= SPREAD_SECONDS_MAX, f"a change took {times[-1]:.2f} s")
    for one in (*talkers, *voices):
        one.close()


def heard_by_all(talkers, voice, payload):
    """Every talker subscribes, and hears what is published at one node."""
    for talker in talkers:
        talker.errors.clear()
        talker.subscribe("spread")

    def heard():
        # Interest travels: other nodes know of a subscription shortly after its PONG.
        voice.publish("spread", payload)
        return all(payload in talker.heard for talker in talkers)
    eventually(heard, f"all hear {payload}", 10)


def attempt(action):
    try:
        return action()
    except (Failure, OSError, kproto.Closed):
        return None


def killed_with_rules(nodes):
    """The controller is killed while a request with many rules is under way."""
    times = []
    for number in range(KILLS):
        user = f"bob{number}"
        leader = eventually(lambda: controller(nodes), "there is a controller", ELECTION_SECONDS_MAX)
        survivors = [node for node in nodes if node is not leader]
        through, done = admin(survivors[number % 2]), []

        def change():
            try:
                add(through, [rule(user, f"t{at}") for at in range(RULES)])
                done.append("acknowledged")
            except (Failure, OSError, kproto.Closed) as error:
                done.append(repr(error))
        thread = threading.Thread(target=change)
        thread.start()
        time.sleep(0.002 * number)
        leader.kill()
        began = time.monotonic()
        thread.join(60)
        check(done, "no outcome within a minute")
        # The cluster takes changes again. What the dead controller had begun is decided by then.
        eventually(lambda: attempt(lambda: add(admin(survivors[0]), [rule(user, "after")]) or True), "rules can be changed", ELECTION_SECONDS_MAX)
        times.append(time.monotonic() - began)
        leader.start()
        counts = eventually(lambda: agreed(nodes, user), "all nodes have the same rules", ELECTION_SECONDS_MAX) - 1
        check(counts in (0, RULES), f"{counts} of {RULES} rules hold: half a request")
        check(done != ["acknowledged"] or counts == RULES, "an acknowledged request does not hold")
        print(f"  kill {number}: the request was {done[0][:90]}, {counts} rules hold, changed again after {times[-1]:.1f} s", flush=True)


def agreed(nodes, user):
    """The number of rules of a user, if all nodes say the same."""
    said = {attempt(lambda node=node: count_rules(admin(node), user)) for node in nodes}
    return said.pop() if len(said) == 1 else None


def killed_with_user(nodes):
    """The controller is killed while a user is removed who is connected to every node."""
    for number in range(2):
        user = f"carol{number}"
        leader = eventually(lambda: controller(nodes), "there is a controller", ELECTION_SECONDS_MAX)
        survivors = [node for node in nodes if node is not leader]
        add_user(survivors[0], user)
        open_ones = [eventually(lambda node=node: attempt(lambda: login(node.kafka, user, f"{user}-secret")), f"{user} may log in") for node in survivors]
        talkers = [Talker(node, user) for node in nodes]
        described = admin(survivors[0]).call("DescribeUserScramCredentials", 0, {"Users": [{"Name": user}]})["Results"][0]
        request = {"Deletions": [{"Name": user, "Mechanism": one["Mechanism"]} for one in described["CredentialInfos"]][:1], "Upsertions": []}
        others = [one["Mechanism"] for one in described["CredentialInfos"]][1:]
        for mechanism in others:
            admin(survivors[0]).call("AlterUserScramCredentials", 0, {"Deletions": [{"Name": user, "Mechanism": mechanism}], "Upsertions": []})
        through = admin(survivors[1])
        through.send("AlterUserScramCredentials", 0, request)
        leader.kill()

        def removed():
            """Asks again until the user is gone: the first answer may be lost."""
            answer = admin(survivors[1]).call("AlterUserScramCredentials", 0, request)["Results"][0]
            return answer["ErrorCode"] in (0, 91)
        eventually(lambda: attempt(removed), "the user is removed", ELECTION_SECONDS_MAX)
        began = time.monotonic()

        def gone():
            return all(attempt(lambda one=one: one.call("Metadata", 9, {"Topics": []})) is None for one in open_ones)
        eventually(gone, "the connections of a removed user end", 10)
        eventually(lambda: all(talker.has_ended for talker in talkers), "the NATS connections of a removed user end", 10)
        print(f"  removal {number}: connections on both survivors, of Kafka and NATS clients, had ended {time.monotonic() - began:.1f} s after it was known to be removed", flush=True)
        for node in survivors:
            check(attempt(lambda: login(node.kafka, user, f"{user}-secret")) is None, f"{user} may log in at {node.name}")
            check(is_refused(node, user, f"{user}-secret"), f"{user} may log in by NATS at {node.name}")
        leader.start()
        eventually(lambda: attempt(lambda: admin(leader)) is not None, "the killed node is back", ELECTION_SECONDS_MAX)
        check(attempt(lambda: login(leader.kafka, user, f"{user}-secret")) is None, f"{user} may log in at the node that was killed")
        check(is_refused(leader, user, f"{user}-secret"), f"{user} may log in by NATS at the node that was killed")


def removed_user(nodes):
    """A user is removed at one node, and its NATS connections end on every node, and no other ones."""
    for number, through in enumerate(nodes):
        user = f"dave{number}"
        add_user(through, user)
        talkers = [eventually(lambda node=node: attempt_nats(lambda: Talker(node, user)), f"{user} may log in by NATS") for node in nodes]
        others = [Talker(node, "admin") for node in nodes]
        tailrace("user", "remove", user, "--bootstrap", through.kafka, "--sasl-user", "admin")
        began = time.monotonic()
        eventually(lambda: all(one.has_ended for one in talkers), "the NATS connections of a removed user end", 10)
        print(f"  removed at {through.name}: the NATS connections on all nodes had ended {(time.monotonic() - began) * 1000:.0f} ms later", flush=True)
        for node, other in zip(nodes, others):
            check(is_refused(node, user, f"{user}-secret"), f"{user} may log in by NATS at {node.name}")
            other.publish("elsewhere", b"works")
            check(not other.has_ended, f"the administrator's connection to {node.name} ended, too")
            other.close()


def attempt_nats(action):
    """Like `attempt`. nats-py has many errors for a login that is refused."""
    try:
        return action()
    except Exception:
        return None


# ---- from open to closed ----

class Producer:
    """A producer with default settings. It remembers what was acknowledged, and every error that it was told."""

    def __init__(self, nodes, name, **more):
        self.name, self.acknowledged, self.errors, self.sent = name, set(), [], 0
        self.producer = ck.Producer({"bootstrap.servers": bootstrap(nodes), "client.id": name, "log_level": 0, **more})
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def told(self, error, message):
        if error is not None:
            self.errors.append(str(error))
        else:
            self.acknowledged.add(message.value())

    def work(self):
        while not self.stopped.is_set():
            self.producer.produce("moved", f"{self.name}-{self.sent}".encode(), on_delivery=self.told)
            self.sent += 1
            self.producer.poll(0.01)

    def end(self):
        self.stopped.set()
        self.thread.join()
        self.producer.flush(60)
        check(len(self.acknowledged) + len(self.errors) == self.sent, f"{self.name}: {self.sent} sent, {len(self.acknowledged)} acknowledged")
        return self


class Consumer:
    """A consumer of a group with default settings."""

    def __init__(self, nodes, name, **more):
        self.name, self.seen, self.errors = name, set(), []
        self.consumer = ck.Consumer({"bootstrap.servers": bootstrap(nodes), "group.id": "movers", "auto.offset.reset": "earliest", "client.id": name, "log_level": 0, **more})
        self.consumer.subscribe(["moved"])
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def work(self):
        while not self.stopped.is_set():
            message = self.consumer.poll(0.2)
            if message is None:
                continue
            if message.error():
                self.errors.append(str(message.error()))
            else:
                self.seen.add(message.value())

    def end(self):
        self.stopped.set()
        self.thread.join()
        self.consumer.close()
        return self


def sasl(user):
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", "sasl.username": user, "sasl.password": f"{user}-secret"}


def roll(nodes, **settings):
    """Restarts one node after the other, each when all replicas are in sync again."""
    for node in nodes:
        node.settings.update(settings)
        node.stop().start()
        eventually(lambda: not lagging(node), f"all replicas are in sync after the restart of {node.name}", 60)


def lagging(node):
    """Whether a partition misses a replica, as this node sees it. The administrator asks, once there is one."""
    try:
        try:
            connection = login(node.kafka, "admin", "admin-secret")
        except (Failure, kproto.Closed):
            connection = kproto.Conn(SCHEMA, node.kafka, 10)
        answer = connection.call("Metadata", 12, {"Topics": [{"TopicId": bytes(16), "Name": "moved"}]})
    except (OSError, kproto.Closed):
        return True
    topic = answer["Topics"][0]
    return topic["ErrorCode"] != 0 or any(len(one["IsrNodes"]) < 3 for one in topic["Partitions"])


def moves():
    """Goes the documented steps while clients work."""
    # No first user here: the cluster exists already.
    os.environ.pop("TAILRACE_FIRST_PASSWORD", None)
    os.environ.pop("TAILRACE_PASSWORD", None)
    os.makedirs(f"{FOLDER}/moved")
    nodes = three(f"{FOLDER}/moved", default__replication__factor="3")
    raw = kproto.Conn(SCHEMA, nodes[0].kafka, 20)
    raw.call("CreateTopics", 7, {"Topics": [{"Name": "moved", "NumPartitions": 3, "ReplicationFactor": 3, "Configs": [{"Name": "min.insync.replicas", "Value": "2"}, {"Name": "tailrace.subjects", "Value": "moved.>"}]}], "timeoutMs": 10_000})
    producers, consumers = [Producer(nodes, "open")], [Consumer(nodes, "open-reader")]
    publishers, subscribers = [Publisher(nodes, "open-publisher", "moved.nats")], [Subscriber(nodes, "open-hearer", "moved.>")]
    steps = time.monotonic()

    def step(text):
        nonlocal steps
        print(f"  {text}: {time.monotonic() - steps:.0f} s", flush=True)
        steps = time.monotonic()
    time.sleep(2)
    roll(nodes, tailrace__kafka__authentication="requested")
    step("all nodes admit logins")
    secret = Path(FOLDER) / "secret"
    for user in ("admin", "writer", "reader"):
        secret.write_text(f"{user}-secret")
        tailrace("user", "add", user, "--password-file", str(secret), "--bootstrap", nodes[0].kafka)
    producers.append(Producer(nodes, "secret", **sasl("writer")))
    consumers.append(Consumer(nodes, "secret-reader", **sasl("reader")))
    publishers.append(Publisher(nodes, "secret-publisher", "moved.nats", "writer"))
    subscribers.append(Subscriber(nodes, "secret-hearer", "moved.>", "reader"))
    eventually(lambda: len(producers[1].acknowledged) > 20, "the new producer works")
    eventually(lambda: len(publishers[1].acknowledged) > 20, "the new publisher works")
    eventually(lambda: publishers[1].acknowledged & subscribers[1].heard, "the new subscriber works")
    roll(nodes, authorizer__class__name=AUTHORIZER, super__users="User:admin", tailrace__authorizer__report__only="true")
    step("rules are tried")
    reported = eventually(lambda: [node.log() for node in nodes if "writer" in node.log()], "what would be refused is logged")
    lines = [line for log in reported for line in log.splitlines() if re.search(r"would|report", line) and "writer" in line]
    check(lines, "the log does not say what would be refused")
    print(f"    {re.sub(chr(27) + r'[^m]*m', '', lines[0])[:200]}", flush=True)
    os.environ["TAILRACE_PASSWORD"] = "admin-secret"
    for words in (("--user", "writer", "--producer", "--topic", "moved"), ("--user", "reader", "--consumer", "--topic", "moved", "--group", "movers")):
        tailrace("acl", "add", *words, "--bootstrap", nodes[0].kafka, "--sasl-user", "admin")
    # The clients that do not log in are no longer needed.
    open_producer, open_consumer = producers[0].end(), consumers[0].end()
    open_publisher, open_subscriber = publishers[0].end(), subscribers[0].end()
    check(open_publisher.acknowledged & open_subscriber.heard, "the open subscriber heard nothing")
    time.sleep(2)
    marks = [len(node.log()) for node in nodes]
    time.sleep(2)
    left = [line for node, mark in zip(nodes, marks) for line in node.log()[mark:].splitlines() if "would" in line and ("writer" in line or "reader" in line)]
    check(not left, f"something would still be refused: {left[:1]}")
    setting = {"ResourceType": 4, "ResourceName": "", "Configs": [{"Name": "tailrace.authorizer.report.only", "ConfigOperation": 0, "Value": "false"}]}
    answer = admin(nodes[0]).call("IncrementalAlterConfigs", 1, {"Resources": [setting], "ValidateOnly": False})
    check(answer["Responses"][0]["ErrorCode"] == 0, f"report.only: {answer}")
    step("rules hold")
    refused = attempt(lambda: kproto.Conn(SCHEMA, nodes[0].kafka, 10).call("Metadata", 12, {"Topics": [{"TopicId": bytes(16), "Name": "moved"}]}))
    check(refused is not None and refused["Topics"][0]["ErrorCode"] == TOPIC_REFUSED, f"who does not log in may see the topic: {refused}")
    for node in nodes:
        stranger = Talker(node, None)
        check(not stranger.may_publish("moved.nats") and not stranger.may_hear("moved.>"), f"who does not log in may publish or hear at {node.name}")
        stranger.close()
    roll(nodes, tailrace__kafka__authentication="required", tailrace__nats__authentication="required")
    step("a login is required")
    for node in nodes:
        check(is_refused(node), f"{node.name} lets NATS clients in that do not log in")
        check(attempt(lambda: kproto.Conn(SCHEMA, node.kafka, 10).call("Metadata", 12, {"Topics": []})) is None, f"{node.name} answers who does not log in")
    time.sleep(2)
    producers[1].end()
    # Both work on after the last step.
    before = set(publishers[1].acknowledged)
    eventually(lambda: (publishers[1].acknowledged - before) & subscribers[1].heard, "the publisher and the subscriber work on")
    publishers[1].end()
    subscribers[1].end()
    published = open_publisher.acknowledged | publishers[1].acknowledged
    acknowledged = open_producer.acknowledged | producers[1].acknowledged | published
    eventually(lambda: acknowledged <= open_consumer.seen | consumers[1].seen, "all acknowledged records are read", 60)
    consumers[1].end()
    errors = {one.name: one.errors[:3] for one in (*producers, *consumers, *publishers, *subscribers) if one.errors}
    check(not errors, f"clients were told of errors: {errors}")
    again = sum(one.again for one in publishers)
    print(f"  {len(acknowledged)} records were acknowledged and read, {len(published)} of them by NATS (sent again {again} times), no client was told of an error", flush=True)
    end_all()


def main():
    harness.at_end.append(end_all)
    try:
        closed = {"a rule holds on all nodes within a second": spreads, "a rule holds for NATS clients of all nodes within a second": spreads_to_nats,
                  "a removed user's NATS connections end on every node": removed_user, "a controller dies while rules change": killed_with_rules,
                  "a controller dies while a user is removed": killed_with_user}
        if any(harness.ONLY.search(name) for name in closed):
            os.makedirs(f"{FOLDER}/closed")
            nodes = three(f"{FOLDER}/closed", **CLOSED)
            for name, action in closed.items():
                run(name, action, nodes)
            end_all()
        run("an open cluster is closed under load", moves)
    finally:
        end_all()
    return 1 if harness.failed else 0


if __name__ == "__main__":
    sys.exit(main())
