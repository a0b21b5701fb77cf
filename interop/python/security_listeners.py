"""Four Kafka listeners at once, on each of two nodes, beside the port for nodes: run by interop/security.sh.

confluent-kafka and kafka-python come by each listener, as the user whom the listener knows. Each is told the
addresses of that listener of both nodes and no other address, may do what its user may, and works. A client that
speaks the protocol of another listener is refused.
"""
import logging, os, uuid
from pathlib import Path

import confluent_kafka as ck
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, AdminClient, NewTopic, ResourcePatternType, ResourceType
import kafka, kafka.errors

os.environ["TAILRACE_FIRST_PASSWORD"] = "admin-secret"
from harness import Failure, check, eventually, raises, run, same  # noqa: E402
from nodes import Node  # noqa: E402
from ports import free_ports  # noqa: E402
import harness  # noqa: E402

logging.disable()
FOLDER = Path(os.environ["SECURITY_FOLDER"])
NAMES = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "OUTSIDE")
PROTOCOLS = dict(zip(NAMES, ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")))
# Whom each listener knows the clients as. admin makes the rules.
USERS = dict(zip(NAMES, ("ANONYMOUS", "certified", "admin", "admin")))
TOPIC = "of-four-listeners"
CA, CERTIFICATE, KEY = (str(FOLDER / name) for name in ("ca.pem", "client.pem", "client.key"))


class Listening(Node):
    """A node with four Kafka listeners by name."""

    def __init__(self, number, seeds=()):
        self.ports = dict(zip(NAMES, free_ports(4)))
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        super().__init__(str(FOLDER), number, seeds, name=f"listening{number}", listeners=listeners,
                         listener__security__protocol__map=",".join(f"{name}:{protocol}" for name, protocol in PROTOCOLS.items()),
                         listener__name__outside__sasl__enabled__mechanisms="SCRAM-SHA-256", sasl__enabled__mechanisms="PLAIN,SCRAM-SHA-256",
                         listener__name__ssl__ssl__client__auth="required", listener__name__outside__ssl__client__auth="none",
                         ssl__principal__mapping__rules="RULE:^CN=interop client$/certified/",
                         tailrace__tls__certificate__file=str(FOLDER / "server.pem"), tailrace__tls__key__file=str(FOLDER / "server.key"), tailrace__tls__ca__file=CA,
                         authorizer__class__name="org.apache.kafka.metadata.authorizer.StandardAuthorizer", super__users="User:admin", tailrace__first__user="admin")

    def command(self):
        words = super().command()
        at = words.index("--kafka")
        return words[:at] + words[at + 2:]

    def address(self, name):
        return f"127.0.0.1:{self.ports[name]}"


def confluent(address, protocol, mechanism="SCRAM-SHA-256", **more):
    config = {"bootstrap.servers": address, "security.protocol": protocol, "log_level": 0, "socket.timeout.ms": 10000, **more}
    if protocol.startswith("SASL"):
        config |= {"sasl.mechanism": mechanism, "sasl.username": "admin", "sasl.password": "admin-secret"}
    if protocol.endswith("SSL"):
        config |= {"ssl.ca.location": CA}
    if protocol == "SSL":
        config |= {"ssl.certificate.location": CERTIFICATE, "ssl.key.location": KEY}
    return config


def python(address, protocol, mechanism="SCRAM-SHA-256"):
    config = {"bootstrap_servers": address, "security_protocol": protocol}
    if protocol.startswith("SASL"):
        config |= {"sasl_mechanism": mechanism, "sasl_plain_username": "admin", "sasl_plain_password": "admin-secret"}
    if protocol.endswith("SSL"):
        config |= {"ssl_cafile": CA}
    if protocol == "SSL":
        config |= {"ssl_certfile": CERTIFICATE, "ssl_keyfile": KEY}
    return config


def prepare(nodes):
    """The topic, with a replica on each node, and rules for who comes without a login."""
    admin = AdminClient(confluent(nodes[0].address("OUTSIDE"), "SASL_SSL"))
    for future in admin.create_topics([NewTopic(TOPIC, 4, 2)]).values():
        future.result(30)
    of = lambda user, kind, name, operation: AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
    rules = [of(user, ResourceType.TOPIC, TOPIC, operation) for user in ("ANONYMOUS", "certified") for operation in (AclOperation.READ, AclOperation.WRITE)]
    rules += [of(user, ResourceType.GROUP, "*", AclOperation.READ) for user in ("ANONYMOUS", "certified")]
    for future in admin.create_acls(rules).values():
        future.result(30)


def sees_only_its_own(nodes, name):
    """Metadata by each node, with librdkafka and with kafka-python."""
    expected = sorted(node.address(name) for node in nodes)
    for node in nodes:
        def told():
            brokers = AdminClient(confluent(node.address(name), PROTOCOLS[name])).list_topics(timeout=15).brokers.values()
            return sorted(f"{broker.host}:{broker.port}" for broker in brokers)
        eventually(lambda: len(told()) == len(nodes), f"{name} of {node.name} knows both nodes", 30)
        same(told(), expected, f"addresses that {name} of {node.name} tells")
        client = kafka.KafkaAdminClient(**python(node.address(name), PROTOCOLS[name]))
        try:
            described = client.describe_cluster()
            same(sorted(f"{broker['host']}:{broker['port']}" for broker in described["brokers"]), expected, f"DescribeCluster by {name}")
        finally:
            client.close()


def works(nodes, name):
    """A record to each partition, so to the leaders on both nodes, and back by a group, whose coordinator is on one of them."""
    values = {f"{name} {uuid.uuid4()} {partition}".encode() for partition in range(4)}
    errors = []
    producer = ck.Producer(confluent(nodes[0].address(name), PROTOCOLS[name], **{"message.timeout.ms": 20000}))
    for partition, value in enumerate(sorted(values)):
        producer.produce(TOPIC, value, partition=partition, on_delivery=lambda error, _: errors.append(error))
    producer.flush(25)
    check(len(errors) == 4 and not any(errors), f"produce by {name}: {errors}")
    consumer = kafka.KafkaConsumer(TOPIC, group_id=f"group-{name}-{uuid.uuid4()}", auto_offset_reset="earliest", consumer_timeout_ms=30000, **python(nodes[1].address(name), PROTOCOLS[name]))
    try:
        left = set(values)
        for record in consumer:
            left.discard(record.value)
            if not left:
                return
        raise Failure(f"{len(left)} records did not come by {name}")
    finally:
        consumer.close()


def rules_of_its_user(nodes, name):
    """Only admin may make topics."""
    admin = AdminClient(confluent(nodes[1].address(name), PROTOCOLS[name]))
    create = lambda: [future.result(30) for future in admin.create_topics([NewTopic(f"by-{name.lower()}", 1, 1)]).values()]
    if USERS[name] == "admin":
        create()
    else:
        raises("TOPIC_AUTHORIZATION_FAILED", create, f"a topic by {name}")


def refuses_others(nodes):
    """Who speaks another protocol gets nowhere, nor who has no certificate where one is required, and a mechanism counts for its listener only."""
    def fails(address, protocol, what, mechanism="SCRAM-SHA-256", **more):
        config = confluent(address, protocol, mechanism, **more)
        raises(ck.KafkaException, lambda: AdminClient(config).list_topics(timeout=3), what)
    for name in NAMES:
        for protocol in PROTOCOLS.values():
            if protocol != PROTOCOLS[name]:
                fails(nodes[0].address(name), protocol, f"{protocol} on {name}")
    bare = confluent(nodes[0].address("SSL"), "SSL")
    del bare["ssl.certificate.location"], bare["ssl.key.location"]
    raises(ck.KafkaException, lambda: AdminClient(bare).list_topics(timeout=3), "SSL without a certificate")
    fails(nodes[0].address("OUTSIDE"), "SASL_SSL", "PLAIN on OUTSIDE", mechanism="PLAIN")
    check(AdminClient(confluent(nodes[0].address("SASL_PLAINTEXT"), "SASL_PLAINTEXT", "PLAIN")).list_topics(timeout=15).brokers, "PLAIN on SASL_PLAINTEXT")
    # The port for nodes speaks no Kafka.
    fails(nodes[0].listen, "PLAINTEXT", "Kafka on the port for nodes")


nodes = [Listening(1)]
nodes.append(Listening(2, [nodes[0].listen]))
try:
    for node in nodes:
        node.start()
    run("four listeners: rules are made by the one outside", prepare, nodes)
    for name in NAMES:
        run(f"four listeners: {name} tells its own addresses only", sees_only_its_own, nodes, name)
        run(f"four listeners: produce and consume by {name}", works, nodes, name)
        run(f"four listeners: clients of {name} are {USERS[name]}", rules_of_its_user, nodes, name)
    run("four listeners: each refuses what is not for it", refuses_others, nodes)
finally:
    for node in nodes:
        node.kill()
raise SystemExit(harness.failed > 0)
