"""Users with all kinds of rights at Kafka and at tailrace, and their answers compared: see
../../security-beside.sh."""
import argparse, json, random, signal, sys, time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
import known, logins, requests
from servers import INTEROP, Server, kproto, schema  # noqa: F401

QUICK_SECONDS, BATCH = 60, 24
# Logins have a part of their own. Tokens are compared by interop/security.sh: these servers have no key for
# them.
TOKENS = {f"{verb}DelegationToken" for verb in ("Create", "Renew", "Expire", "Describe")}
APART = {"SaslHandshake", "SaslAuthenticate", "ApiVersions"} | TOKENS
# Reads that follow a change at their own pace are repeated for so long while the servers differ.
PATIENCE_SECONDS = 3
READS = {"Metadata", "DescribeTopicPartitions", "ListOffsets", "OffsetFetch", "DescribeGroups", "ConsumerGroupDescribe", "ListGroups", "DescribeAcls", "DescribeConfigs", "FindCoordinator",
         "DescribeProducers", "ListConfigResources"}
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
LITERAL, PREFIXED, DENY, ALLOW = 3, 4, 2, 3
ALL = 2
OPERATIONS = {TOPIC: (3, 4, 5, 6, 7, 8, 10, 11, ALL), GROUP: (3, 6, 8, 10, 11, ALL), CLUSTER: (5, 7, 8, 9, 10, 11, 12, ALL), TRANSACTIONAL_ID: (4, 8, 15, ALL)}
WORDS = {TOPIC: "topic", GROUP: "group", CLUSTER: "cluster", TRANSACTIONAL_ID: "transactional id"}
# What is not compared: it is each server's own.
OWN = {"ThrottleTimeMs", "throttleTimeMs", "ClusterId", "Brokers", "ControllerId", "Host", "Port", "Rack", "NodeId", "LeaderId", "LeaderEpoch", "CurrentLeader", "NodeEndpoints", "ProducerId",
       "ProducerEpoch", "LogAppendTimeMs", "Records", "TopicId", "Configs", "Nodes", "Voters", "Observers", "BaseOffset", "HighWatermark", "LastStableOffset", "LogStartOffset",
       "CurrentLeaderEpoch", "LeaderRecoveryState", "SessionId", "StartTimestamp", "LastTimestamp", "EndOffset", "ReplicaNodes", "IsrNodes", "AcquisitionLockTimeoutMs", "CoordinatorEpoch", "CommittedLeaderEpoch",
       "LogDir", "TotalBytes", "UsableBytes", "LastOffset", "LowWatermark", "GroupEpoch", "AssignmentEpoch", "Timestamp", "Offset", "StartOffset", "Lag", "NumPartitions", "ReplicationFactor", "OfflineReplicas",
       "EligibleLeaderReplicas", "LastKnownElr", "HeartbeatIntervalMs", "AbortedTransactions", "TransactionStartTimeMs", "ActiveProducers", "MemberEpoch", "AssignmentEpoch", "TransactionTimeoutMs", "LogEndOffset", "LastFetchTimestamp", "LastCaughtUpTimestamp"}


def rule(user, kind, name, operation, permission=ALLOW, pattern=LITERAL, host="*"):
    return {"ResourceType": kind, "ResourceName": name, "ResourcePatternType": pattern, "Principal": f"User:{user}", "Host": host, "Operation": operation, "PermissionType": permission}


class Person:
    """A user with rules, and what it is called in a report."""

    def __init__(self, user, what, rules):
        self.user, self.what, self.rules = user, what, rules


def names_of(user, kind):
    return {TOPIC: [f"{user}-a"], GROUP: [f"{user}-g"], CLUSTER: ["kafka-cluster"], TRANSACTIONAL_ID: [f"{user}-t"]}[kind]


def everything(user):
    return [rule(user, kind, "kafka-cluster" if kind == CLUSTER else "*", ALL) for kind in OPERATIONS]


SINGLE = [(kind, operation) for kind, operations in OPERATIONS.items() for operation in operations]


def designed(user, number, chance):
    """The persons that are not drawn: without rights, each right alone, all but one; and variants of a right."""
    if number == 0:
        return Person(user, "no rights", [])
    if number == 1:
        return Person(user, "all rights", everything(user))
    number -= 2
    if number >= 3 * len(SINGLE):
        return None
    kind, operation = SINGLE[number % len(SINGLE)]
    name, what = names_of(user, kind)[0], f"operation {operation} of a {WORDS[kind]}"
    if number < len(SINGLE):
        return Person(user, f"only {what}", [rule(user, kind, name, operation)])
    if number < 2 * len(SINGLE):
        return Person(user, f"all but {what}", [*everything(user), rule(user, kind, name, operation, DENY)])
    how = chance.choice(("prefixed", "asterisk", "another host", "this host", "asterisk as a prefix"))
    if kind == CLUSTER and how in ("prefixed", "asterisk", "asterisk as a prefix"):
        how = "another host"
    rules = {"prefixed": rule(user, kind, user, operation, pattern=PREFIXED), "asterisk": rule(user, kind, "*", operation),
             "another host": rule(user, kind, name, operation, host="10.1.2.3"), "this host": rule(user, kind, name, operation, host="127.0.0.1"),
             "asterisk as a prefix": rule(user, kind, "*", operation, pattern=PREFIXED)}
    return Person(user, f"{what}, {how}", [rules[how]])


def drawn(user, chance):
    rules = []
    for _ in range(chance.randint(1, 8)):
        kind = chance.choice(list(OPERATIONS))
        pattern = chance.choice((LITERAL, LITERAL, PREFIXED)) if kind != CLUSTER else LITERAL
        name = "kafka-cluster"
        if kind != CLUSTER:
            ends = {TOPIC: ("a", "b", "none", "new"), GROUP: ("g", "absent", "c"), TRANSACTIONAL_ID: ("t", "absent")}[kind]
            name = chance.choice(("*", *(f"{user}-{end}" for end in ends), *(f"{user}-{end}" for end in ends))) if pattern == LITERAL else f"{user}-{chance.choice(ends)}"[:chance.randint(len(user), len(user) + 3)]
        operation = chance.choice(OPERATIONS[kind])
        rules.append(rule(user, kind, name, operation, chance.choice((ALLOW, ALLOW, ALLOW, DENY)), pattern, chance.choice(("*", "*", "*", "127.0.0.1", "10.1.2.3"))))
    # One of the rules may be for everybody: no other user has these names.
    if chance.random() < 0.3:
        one = rule("*", chance.choice((TOPIC, GROUP)), f"{user}-", chance.choice((3, 8)), pattern=PREFIXED)
        rules.append(one)
    return Person(user, "random rules", rules)


def normal(value, inside=""):
    if isinstance(value, dict):
        return {key: normal(one, key) for key, one in value.items() if key not in OWN}
    if isinstance(value, list):
        # Each server has internal topics of its own.
        rows = [normal(one) for one in value if not (isinstance(one, dict) and str(one.get("Name")).startswith("__"))]
        return sorted(rows, key=json.dumps) if rows and isinstance(rows[0], (dict, str)) else rows
    return f"{len(value)} bytes" if isinstance(value, bytes) else value


class Talk:
    """A connection of a user to one server."""

    def __init__(self, server, person, ids):
        self.server, self.person, self.ids = server, person, ids
        self.connection = None

    def names(self):
        return requests.Names(self.person.user, self.ids)

    def ask(self, api, version, body):
        definition = self.server.schema.requests[self.server.schema.key(api)]
        for _ in range(2):
            try:
                if self.connection is None:
                    self.connection = self.server.login(self.person.user)
                return normal(self.connection.call(api, version, trimmed(definition["fields"], body, version, definition)))
            except (kproto.Closed, OSError) as error:
                self.connection = None
                answer = f"closed: {type(error).__name__}"
        return answer


def trimmed(fields, body, version, definition):
    """Leaves out what the version does not have."""
    known_fields, out = {field["name"]: field for field in fields}, {}
    common = {one["name"]: one["fields"] for one in definition.get("commonStructs", [])}
    for key, value in body.items():
        field = known_fields.get(key)
        if field is None or not kproto.inr(version, field["versions"]):
            continue
        inner = field.get("fields") or common.get(field["type"].removeprefix("[]"))
        if inner and isinstance(value, list):
            value = [trimmed(inner, one, version, definition) for one in value]
        out[key] = value
    return out


class Play:
    def __init__(self, servers, wanted):
        self.servers, self.wanted = servers, wanted
        self.pool = ThreadPoolExecutor(2)
        self.met, self.asked, self.differences, self.seen = Counter(), Counter(), 0, Counter()
        self.versions = self.served()

    def served(self):
        """The versions of every API that both servers have."""
        both = []
        for server in self.servers:
            answer = server.call("ApiVersions", 3, {"ClientSoftwareName": "rights", "ClientSoftwareVersion": "1"})
            both.append({one["ApiKey"]: (one["MinVersion"], one["MaxVersion"]) for one in answer["ApiKeys"]})
        names = {key: name for name, key in self.servers[0].schema.keys.items()}
        return {names[key]: (max(low, both[0][key][0]), min(high, both[0][key][1])) for key, (low, high) in both[1].items() if key in both[0]}

    def chosen(self, api, chance):
        low, high = self.versions[api]
        every = list(range(low, high + 1))
        return every if self.wanted.minutes else sorted({low, high, chance.choice(every)})

    def difference(self, person, api, version, body, kafka, tailrace):
        reasons = known.which(api, version, kafka, tailrace)
        if reasons is not None:
            self.met.update(reasons)
            return
        self.differences += 1
        self.seen[api] += 1
        # One report of a kind is enough.
        if self.seen[api] <= self.wanted.reports:
            values = [(path, one, other) for path, one, other, _ in known.pairs(kafka, tailrace) if not path.endswith("ErrorMessage")]
            print(f"FAIL rights: {api} v{version}: {person.what} ({person.user})\n  differ:   {json.dumps(values)[:600]}\n  rules:    {json.dumps([short(one) for one in person.rules])}\n"
                  f"  request:  {json.dumps(body, default=lambda raw: f'{len(raw)} bytes')[:600]}\n  kafka:    {json.dumps(kafka)[:1200]}\n  tailrace: {json.dumps(tailrace)[:1200]}", flush=True)

    def both(self, talks, api, version, make):
        bodies = [make(talk.names()) for talk in talks]
        kafka, tailrace = self.pool.map(lambda pair: pair[0].ask(api, version, pair[1]), zip(talks, bodies))
        return bodies[1], kafka, tailrace

    def one(self, talks, api, version, make, repeat):
        body, kafka, tailrace = self.both(talks, api, version, make)
        end = time.monotonic() + PATIENCE_SECONDS
        while kafka != tailrace and repeat and known.which(api, version, kafka, tailrace) is None and self.seen[api] < 3 and time.monotonic() < end:
            time.sleep(0.2)
            body, kafka, tailrace = self.both(talks, api, version, make)
        self.asked[api] += 1
        if kafka != tailrace:
            self.difference(talks[0].person, api, version, body, kafka, tailrace)

    def person(self, person, ids, chance):
        talks = [Talk(server, person, own) for server, own in zip(self.servers, ids)]
        list(self.pool.map(lambda talk: talk.server.make_living(talk.names()), talks))
        plan = requests.bodies(talks[0].names())
        for api in plan:
            if api not in self.versions or (self.wanted.only and api != self.wanted.only):
                continue
            for version in self.chosen(api, chance):
                for number in range(len(plan[api])):
                    self.one(talks, api, version, lambda names: requests.bodies(names)[api][number], api in READS)
        if not self.wanted.only:
            for number, (api, version, _) in enumerate(requests.last(talks[0].names())):
                self.one(talks, api, version, lambda names: requests.last(names)[number][2], False)
        for talk in talks:
            if talk.connection:
                talk.connection.close()

    def batch(self, people, chance):
        """Makes the things and rules of some users on both servers, and lets them talk."""
        def make(server):
            server.users = [person.user for person in people]
            server.make_users()
            ids = server.make_topics([f"{person.user}-{end}" for person in people for end in "ab"])
            for person in people:
                committed = {"GroupId": f"{person.user}-g", "GenerationIdOrMemberEpoch": -1, "Topics": [
                    {"Name": f"{person.user}-a", "Partitions": [{"PartitionIndex": 0, "CommittedOffset": 0, "CommittedLeaderEpoch": -1, "CommittedMetadata": ""}]}]}
                for _ in range(300):
                    answer = server.call("OffsetCommit", 8, {**committed})
                    if answer["Topics"][0]["Partitions"][0]["ErrorCode"] == 0:
                        break
                    server.call("FindCoordinator", 3, {"Key": "g", "KeyType": 0})
                    time.sleep(0.1)
                else:
                    raise RuntimeError(f"{server.name}: {answer}")
            rules = [one for person in people for one in person.rules]
            server.make_rules(rules)
            server.known_rules = getattr(server, "known_rules", 0) + len({json.dumps(one) for one in rules})
            server.until_rules(server.known_rules)
            return ids
        ids = list(self.pool.map(make, self.servers))
        for person in people:
            began = time.monotonic()
            self.person(person, ids, chance)
            if self.wanted.verbose:
                print(f"  {person.user}: {person.what}, {time.monotonic() - began:.1f} s", flush=True)


def short(one):
    return [WORDS[one["ResourceType"]], one["ResourceName"], one["ResourcePatternType"], one["Principal"], one["Host"], one["Operation"], "allow" if one["PermissionType"] == ALLOW else "deny"]


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--only", help="this API alone")
    parser.add_argument("--reports", type=int, default=2, help="differences that are told for each API")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--people", type=int, help="so many users, then end")
    return parser.parse_args()


def people(wanted):
    """All users of a run, in the order in which they talk. In a quick run the designed ones are shuffled."""
    chance = random.Random(wanted.seed)
    made, number = [], 0
    while (person := designed(f"u{number:04}x", number, chance)) is not None:
        made.append(person)
        number += 1
    first, rest = made[:2], made[2:]
    chance.shuffle(rest)
    if not wanted.minutes:
        # Some with random rules, before the time is over.
        rest = [one for at, person in enumerate(rest) for one in ((person, drawn(f"q{at:04}x", chance)) if at % 4 == 0 else (person,))]
    made = first + rest
    return made + [drawn(f"r{number:05}x", chance) for number in range(60 if not wanted.minutes else int(wanted.minutes * 40))]


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    wanted, began = arguments(), time.monotonic()
    everybody, definitions = people(wanted), schema()
    if wanted.people:
        everybody = everybody[:wanted.people]
    servers = [Server(name, definitions, [person.user for person in everybody]) for name in ("kafka", "tailrace")]
    done = 0
    try:
        list(ThreadPoolExecutor(2).map(lambda server: server.start(), servers))
        for server in servers:
            server.warm()
        play = Play(servers, wanted)
        print(f"rights: seed {wanted.seed}, both servers are up after {time.monotonic() - began:.0f} s", flush=True)
        play.differences += logins.compare(servers, play.versions)
        end = time.monotonic() + (wanted.minutes * 60 if wanted.minutes else QUICK_SECONDS)
        chance = random.Random(f"{wanted.seed} versions")
        size = BATCH if wanted.minutes else 8
        while everybody and (time.monotonic() < end or wanted.people):
            some, everybody = everybody[:size], everybody[size:]
            play.batch(some, chance)
            done += len(some)
    finally:
        for server in servers:
            server.stop()
    print(f"rights: {done} users, {sum(play.asked.values())} requests of {len(play.asked)} APIs, {play.differences} differences")
    missing = sorted(set(play.versions) - set(play.asked) - APART)
    if missing and not wanted.only:
        print(f"FAIL rights: no request for {missing}")
        play.differences += 1
    for reason, _ in known.KNOWN:
        if play.met[reason]:
            print(f"  known: {reason}, {play.met[reason]} times")
        elif wanted.minutes:
            print(f"  NOT MET: the known difference \"{reason}\" did not show: take it off the list if it is gone")
    print(f"{'FAIL' if play.differences else 'PASS'} rights: beside Kafka", flush=True)
    return 1 if play.differences else 0


if __name__ == "__main__":
    sys.exit(main())
