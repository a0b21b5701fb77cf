"""The two servers, each with the same users and an administrator, and connections that log in."""
import hashlib, os, shutil, subprocess, sys, time
from glob import glob
from pathlib import Path

INTEROP = Path(__file__).resolve().parents[2]
sys.path += [str(INTEROP / "raw"), str(INTEROP / "python")]
import kproto  # noqa: E402
import tokens  # noqa: E402
from ports import free_ports  # noqa: E402

START_SECONDS_MAX, CALL_SECONDS_MAX = 120, 20
ADMIN, SECRET = "admin", "admin-secret"
ITERATIONS = 4096
MEMBER = "6b1d1c2e-0000-4000-8000-000000000001"
MECHANISMS = "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER"
SETTINGS = {
    "group.consumer.session.timeout.ms": "60000", "group.share.session.timeout.ms": "60000",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0",
    "transaction.state.log.num.partitions": "1",
}


def schema():
    return kproto.Schema(glob(os.environ["KAFKA_LIBS"] + "/kafka-clients-*.jar")[0])


def keys():
    """The folder with the keys that sign tokens, and the address of their set."""
    folder = Path(os.environ["RIGHTS_FOLDER"])
    tokens.make_keys(folder)
    return folder, f"file://{folder / 'jwks.json'}"


class Server:
    def __init__(self, name, definitions, users):
        self.name, self.schema, self.users = name, definitions, users
        self.folder = Path(os.environ["RIGHTS_FOLDER"]) / name
        self.folder.mkdir()
        self.port, self.other = free_ports(2)
        self.address = f"127.0.0.1:{self.port}"
        self.log = open(self.folder / "log", "w")
        self.process = None

    def start(self):
        getattr(self, f"start_{self.name}")()
        end = time.monotonic() + START_SECONDS_MAX
        while True:
            try:
                self.admin = self.login(ADMIN, SECRET)
                break
            except (OSError, kproto.Closed):
                if self.process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"{self.name} does not start: {(self.folder / 'log').read_text()[-1500:]}") from None
                time.sleep(0.1)

    def start_kafka(self):
        users = " ".join(f'user_{user}="{user}-secret"' for user in [ADMIN, *self.users])
        plain = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{ADMIN}" password="{SECRET}" {users};'
        settings = SETTINGS | {
            "process.roles": "broker,controller", "node.id": "1", "controller.quorum.voters": f"1@127.0.0.1:{self.other}", "log.dirs": str(self.folder / "data"),
            "listeners": f"SASL_PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{self.other}", "advertised.listeners": f"SASL_PLAINTEXT://{self.address}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT", "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "SASL_PLAINTEXT", "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.enabled.mechanisms": MECHANISMS, "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain,
            # The nodes of Kafka talk to their controller without a login.
            "super.users": f"User:{ADMIN};User:ANONYMOUS",
            "offsets.topic.replication.factor": "1", "transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1", "share.coordinator.state.topic.min.isr": "1", "share.coordinator.state.topic.num.partitions": "1",
            "auto.create.topics.enable": "true",
        }
        for size in (256, 512):
            settings[f"listener.name.sasl_plaintext.scram-sha-{size}.sasl.jaas.config"] = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        bearer = "listener.name.sasl_plaintext.oauthbearer.sasl"
        settings |= {f"{bearer}.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
                     f"{bearer}.server.callback.handler.class": "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
                     f"{bearer}.oauthbearer.jwks.endpoint.url": keys()[1], f"{bearer}.oauthbearer.expected.issuer": tokens.ISSUER,
                     f"{bearer}.oauthbearer.expected.audience": tokens.AUDIENCE}
        path = self.folder / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        java = ["java", "-Xms256m", "-Xmx700m", "-XX:+UseSerialGC", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys()[1]}", "-cp", os.environ["KAFKA_LIBS"] + "/*"]
        subprocess.run([*java, "-XX:TieredStopAtLevel=1", "kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAA", "-c", path], check=True, stdout=self.log, stderr=self.log)
        self.process = subprocess.Popen([*java, "kafka.Kafka", path], stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL, start_new_session=True)

    def start_tailrace(self):
        settings = SETTINGS | {"tailrace.kafka.authentication": "required", "super.users": f"User:{ADMIN}", "tailrace.first.user": ADMIN, "nats": "off", "http": "127.0.0.1:0",
                               "tailrace.nats.websocket": "false", "auto.create.topics.enable": "true", "kafka": self.address,
                               # Wrong logins are part of the run. How they are delayed is tested elsewhere.
                               "connection.failed.authentication.delay.ms": "0", "sasl.enabled.mechanisms": MECHANISMS, "sasl.oauthbearer.jwks.endpoint.url": keys()[1],
                               "sasl.oauthbearer.expected.issuer": tokens.ISSUER, "sasl.oauthbearer.expected.audience": tokens.AUDIENCE}
        words = [word for key, value in settings.items() if key != "transaction.state.log.num.partitions" for word in ("--set", f"{key}={value}")]
        binary = os.environ["TAILRACE_BIN"]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("TAILRACE_")} | {"TAILRACE_FIRST_PASSWORD": SECRET}
        self.process = subprocess.Popen([binary, "serve", "--data-dir", self.folder / "data", *words], stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL, env=environment,
                                        start_new_session=True)

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.log.close()
        if "KEEP" not in os.environ:
            shutil.rmtree(self.folder, ignore_errors=True)

    # ---- connections ----

    def connect(self):
        return kproto.Conn(self.schema, self.address, CALL_SECONDS_MAX)

    def login(self, user, password=None):
        one = self.connect()
        one.call("SaslHandshake", 1, {"Mechanism": "PLAIN"})
        answer = one.call("SaslAuthenticate", 2, {"AuthBytes": f"\0{user}\0{password or user + '-secret'}".encode()})
        if answer["ErrorCode"]:
            raise kproto.Closed(f"login of {user}: {answer}")
        return one

    def call(self, name, version, body):
        return self.admin.call(name, version, body)

    # ---- what the administrator makes ----

    def warm(self):
        """Kafka makes the topics of coordinators for the first request, and refuses until then."""
        passing, end = {14, 15, 16}, time.monotonic() + 60
        first = {"TransactionalId": "warm", "TransactionTimeoutMs": 10_000, "ProducerId": -1, "ProducerEpoch": -1}
        commit = {"GroupId": "warm", "GenerationIdOrMemberEpoch": -1, "Topics": [{"Name": "warm", "Partitions": [{"PartitionIndex": 0, "CommittedLeaderEpoch": -1}]}]}
        self.make_topics(["warm"])
        while time.monotonic() < end:
            for kind in (0, 1):
                self.call("FindCoordinator", 3, {"Key": "warm", "KeyType": kind})
            codes = {self.call("InitProducerId", 4, first)["ErrorCode"], self.call("InitProducerId", 4, {**first, "TransactionalId": None})["ErrorCode"],
                     self.call("OffsetCommit", 8, commit)["Topics"][0]["Partitions"][0]["ErrorCode"]}
            if not codes & passing:
                return
            time.sleep(0.1)
        raise RuntimeError(f"{self.name}: the coordinators do not come: {codes}")

    def make_users(self):
        """On Kafka the users of PLAIN stand in the configuration. Both get verifiers for SCRAM, which tailrace
        uses for PLAIN, too."""
        for user in self.users:
            salt = hashlib.sha256(user.encode()).digest()
            salted = hashlib.pbkdf2_hmac("sha256", f"{user}-secret".encode(), salt, ITERATIONS)
            one = {"Name": user, "Mechanism": 1, "Iterations": ITERATIONS, "Salt": salt, "SaltedPassword": salted}
            answer = self.call("AlterUserScramCredentials", 0, {"Deletions": [], "Upsertions": [one]})
            assert answer["Results"][0]["ErrorCode"] == 0, (self.name, answer)

    def make_rules(self, rules):
        for at in range(0, len(rules), 500):
            answer = self.call("CreateAcls", 3, {"Creations": rules[at:at + 500]})
            bad = [result for result in answer["Results"] if result["ErrorCode"]]
            assert not bad, (self.name, bad[:2])

    def until_rules(self, count):
        """Waits until the node itself knows all rules: Kafka answers when its controller does."""
        everything = {"ResourceTypeFilter": 1, "ResourceNameFilter": None, "PatternTypeFilter": 1, "PrincipalFilter": None, "HostFilter": None, "Operation": 1, "PermissionType": 1}
        end = time.monotonic() + 30
        while time.monotonic() < end:
            answer = self.call("DescribeAcls", 3, everything)
            if sum(len(resource["Acls"]) for resource in answer["Resources"]) >= count:
                return
            time.sleep(0.05)
        raise RuntimeError(f"{self.name}: the rules do not come")

    def make_topics(self, names):
        ids = {}
        for at in range(0, len(names), 50):
            topics = [{"Name": name, "NumPartitions": 1, "ReplicationFactor": 1} for name in names[at:at + 50]]
            for topic in self.call("CreateTopics", 7, {"Topics": topics, "timeoutMs": 30_000})["Topics"]:
                assert topic["ErrorCode"] in (0, 36), (self.name, topic)
        end = time.monotonic() + 60
        missing = set(names)
        while missing and time.monotonic() < end:
            for topic in self.call("Metadata", 13, {"Topics": [{"Name": name} for name in sorted(missing)], "AllowAutoTopicCreation": False})["Topics"]:
                if topic["ErrorCode"] == 0 and topic["Partitions"] and all(p["LeaderId"] >= 0 and not p["ErrorCode"] for p in topic["Partitions"]):
                    ids[topic["Name"]] = topic["TopicId"]
                    missing.discard(topic["Name"])
            if missing:
                time.sleep(0.1)
        assert not missing, (self.name, sorted(missing)[:3])
        return ids

    def make_living(self, names):
        """An open transaction, and groups with a member, of one user. The administrator is their client."""
        first = {"TransactionalId": names.t, "TransactionTimeoutMs": 800_000, "ProducerId": -1, "ProducerEpoch": -1}
        producer = self.until(lambda: self.call("InitProducerId", 4, first), lambda answer: answer["ErrorCode"] == 0, "a producer id")
        add = {"V3AndBelowTransactionalId": names.t, "V3AndBelowProducerId": producer["ProducerId"], "V3AndBelowProducerEpoch": producer["ProducerEpoch"],
               "V3AndBelowTopics": [{"Name": name, "Partitions": [0]} for name in (names.a, names.b)]}
        self.until(lambda: self.call("AddPartitionsToTxn", 3, add), lambda answer: answer["ResultsByTopicV3AndBelow"][0]["ResultsByPartition"][0]["PartitionErrorCode"] == 0, "a transaction")
        common = {"MemberId": MEMBER, "RackId": None}
        consumer = {**common, "GroupId": names.m, "InstanceId": None, "RebalanceTimeoutMs": 60_000, "ServerAssignor": None, "SubscribedTopicRegex": None}
        sharer = {**common, "GroupId": names.s}
        for api, version, body, describe in (("ConsumerGroupHeartbeat", 1, consumer, "ConsumerGroupDescribe"), ("ShareGroupHeartbeat", 1, sharer, "ShareGroupDescribe")):
            self.stable(api, version, body, describe, [names.a, names.b])

    def stable(self, api, version, body, describe, topics):
        """Makes a group with one member that has all partitions of the topics."""
        known = {"epoch": 0, "mine": []}

        def beat():
            own = {"TopicPartitions": known["mine"]} if api == "ConsumerGroupHeartbeat" else {}
            answer = self.call(api, version, {**body, **own, "MemberEpoch": known["epoch"], "SubscribedTopicNames": topics if known["epoch"] == 0 else None})
            if answer["ErrorCode"] == 0:
                known["epoch"] = answer["MemberEpoch"]
                known["mine"] = answer["Assignment"]["TopicPartitions"] if answer["Assignment"] else known["mine"]
            group = self.call(describe, version, {"GroupIds": [body["GroupId"]]})["Groups"][0]
            return group, len(known["mine"])
        self.until(beat, lambda said: said[0]["GroupState"] == "Stable" and said[1] == len(topics) and said[0]["Members"][0]["Assignment"]["TopicPartitions"], f"a stable group {body['GroupId']}")

    def until(self, ask, holds, what):
        end = time.monotonic() + 30
        while not holds(answer := ask()):
            if time.monotonic() > end:
                raise RuntimeError(f"{self.name}: not within 30 s: {what}: {answer}")
            time.sleep(0.05)
        return answer
