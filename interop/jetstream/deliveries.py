"""Pull and push consumers: what clients get and acknowledge, the same at both servers."""

import re

from server import HEARTBEAT

NS = 1_000_000_000


def without_time(reply):
    """A reply subject but for the message's time."""
    words = reply.split(".")
    return ".".join(words[:7] + ["T"] + words[8:]) if len(words) == 9 else reply


class Scene:
    """Asks both servers, and remembers the replies of what they deliver."""

    def __init__(self, beside):
        self.beside = beside
        # The last deliveries of each of both.
        self.replies = [[], []]

    def servers(self):
        return (self.beside.ours, self.beside.theirs)

    def ask(self, suffix, body=""):
        return self.beside.ask(suffix, body)

    def publish(self, subjects, headers=""):
        for subject in subjects:
            self.beside.publish(subject, headers, "of " + subject)

    def pull(self, consumer, body, timeout=1):
        """Pulls at both, and compares all that comes."""
        found = []
        for at, server in enumerate(self.servers()):
            got = server.deliveries("$JS.API.CONSUMER.MSG.NEXT.S." + consumer, body.encode(), timeout)
            self.replies[at] = [reply for _, reply, _, _ in got if reply]
            found.append([[subject, without_time(reply), headers, payload] for subject, reply, headers, payload in got])
        self.compare("MSG.NEXT " + consumer, body, *found)

    def ack(self, number, payload="", waits=True):
        """Acknowledges one of the last deliveries, and compares the answers."""
        answers = []
        for at, server in enumerate(self.servers()):
            answer = server.request(self.replies[at][number], payload.encode(), timeout=3 if waits else 0.3)
            answers.append(None if answer is None else answer.decode())
        self.compare("ack %d" % number, payload, *answers)

    def compare(self, what, body, ours, theirs):
        self.beside.asked += 1
        if ours != theirs:
            self.beside.failures += 1
            print("DIFFERS %s %s" % (what, body))
            print("    ours   %s" % ours)
            print("    theirs %s" % theirs)


def consumer(scene, name, **config):
    scene.ask("CONSUMER.CREATE.S." + name, {"stream_name": "S", "config": dict({"name": name}, **config)})


def deliveries(beside):
    beside.reset()
    scene = Scene(beside)
    scene.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["a.>"]})
    scene.publish(["a.%d" % (at % 3) for at in range(10)])
    scene.publish(["a.h"], "X: y\r\n")
    starts(scene)
    requests(scene)
    acks(scene)
    again(scene)
    bounds(scene)
    pauses(scene)
    pushes(scene)


def starts(scene):
    cases = [
        {}, {"deliver_policy": "last"}, {"deliver_policy": "new"}, {"deliver_policy": "last", "filter_subject": "a.1"},
        {"deliver_policy": "last_per_subject", "filter_subject": "a.*"}, {"filter_subject": "a.1"},
        {"filter_subjects": ["a.0", "a.h"]}, {"filter_subject": "a.none"}, {"filter_subject": "b"},
        {"deliver_policy": "by_start_sequence", "opt_start_seq": 9},
        {"deliver_policy": "by_start_sequence", "opt_start_seq": 99},
        {"deliver_policy": "by_start_time", "opt_start_time": "2020-01-01T00:00:00Z"},
        {"deliver_policy": "by_start_time", "opt_start_time": "2099-01-01T00:00:00Z"},
        {"headers_only": True, "deliver_policy": "by_start_sequence", "opt_start_seq": 10},
    ]
    for case in cases:
        for policy in ["none", "explicit"]:
            consumer(scene, "C", ack_policy=policy, **case)
            scene.pull("C", '{"batch":5,"no_wait":true}')
            scene.pull("C", '{"batch":20,"no_wait":true}')
            scene.ask("CONSUMER.INFO.S.C")
            scene.ask("CONSUMER.DELETE.S.C")


def requests(scene):
    consumer(scene, "R", durable_name="R", ack_policy="explicit", max_batch=20, max_expires=4 * NS, max_bytes=5000)
    for body in [
        "", "2", "{}", '{"batch":1}', '{"batch":21}', '{"batch":1,"expires":5000000000}', '{"max_bytes":6000}', "{", "x",
        '{"batch":1,"expires":100,"idle_heartbeat":90}', '{"batch":1,"min_pending":1}', '{"batch":1,"id":"x"}',
        '{"batch":1,"priority":10}', '{"batch":3,"max_bytes":150,"no_wait":true}', '{"batch":20,"no_wait":true}',
        '{"batch":2,"no_wait":true}', '{"batch":2,"expires":200000000}', '{"batch":2,"no_wait":true,"expires":200000000}',
        '{"batch":2,"expires":350000000,"idle_heartbeat":100000000}',
    ]:
        scene.pull("R", body, timeout=1)
    scene.ask("CONSUMER.INFO.S.R")
    scene.pull("none", "1")
    scene.ask("CONSUMER.DELETE.S.R")


def acks(scene):
    for policy in ["explicit", "all"]:
        consumer(scene, "A", durable_name="A", ack_policy=policy)
        scene.pull("A", '{"batch":8,"no_wait":true}', timeout=1)
        for number, payload in [(0, ""), (0, "+ACK"), (2, "+OK"), (3, "+WPI"), (4, "+TERM"), (5, "+TERM why"), (1, "x")]:
            scene.ack(number, payload, waits=policy == "explicit")
            scene.ask("CONSUMER.INFO.S.A")
        scene.ack(6, "-NAK")
        scene.pull("A", '{"batch":1,"no_wait":true}', timeout=1)
        scene.ask("CONSUMER.INFO.S.A")
        scene.ask("CONSUMER.DELETE.S.A")


def again(scene):
    consumer(scene, "W", durable_name="W", ack_policy="explicit", ack_wait=NS // 2, max_deliver=2)
    scene.pull("W", '{"batch":2,"no_wait":true}', timeout=1)
    scene.pull("W", '{"batch":4,"expires":2000000000}')
    scene.ask("CONSUMER.DELETE.S.W")


def bounds(scene):
    consumer(scene, "M", durable_name="M", ack_policy="explicit", max_ack_pending=3)
    scene.pull("M", '{"batch":9,"expires":300000000}')
    scene.ask("CONSUMER.INFO.S.M")
    scene.ack(1)
    scene.pull("M", '{"batch":9,"expires":300000000}')
    scene.ask("CONSUMER.INFO.S.M")
    scene.ask("CONSUMER.NAMES.S")
    scene.ask("CONSUMER.LIST.S")
    scene.ask("CONSUMER.NAMES.S", {"offset": 1})
    scene.ask("STREAM.INFO.S")
    scene.ask("CONSUMER.DELETE.S.M")


def pauses(scene):
    consumer(scene, "Z", durable_name="Z", ack_policy="explicit", pause_until="2099-01-01T00:00:00Z")
    scene.ask("CONSUMER.INFO.S.Z")
    for body in ['{"batch":1,"no_wait":true}', '{"batch":1,"expires":200000000}']:
        scene.pull("Z", body)
    scene.ask("CONSUMER.PAUSE.S.Z", "")
    scene.ask("CONSUMER.INFO.S.Z")
    scene.pull("Z", '{"batch":1,"no_wait":true}')
    for until in ["2099-01-01T02:00:00+02:00", "2000-01-01T00:00:00Z", "0001-01-01T00:00:00Z"]:
        scene.ask("CONSUMER.PAUSE.S.Z", {"pause_until": until})
        scene.ask("CONSUMER.INFO.S.Z")
    scene.ask("CONSUMER.DELETE.S.Z")


def alike(pushed):
    """What was pushed, without times and random words. Of heartbeats only the last one counts, if nothing comes
    behind it: how many there are before that depends on when one looks."""
    found = []
    for subject, reply, headers, payload in pushed:
        words = lambda text: re.sub(r"(\$JS\.FC\.\w+\.\w+\.)\w+", r"\1W", text)
        if found and found[-1][2].startswith(HEARTBEAT):
            found.pop()
        found.append([subject, words(without_time(reply)), words(headers), payload[:40]])
    return found


def pushes(scene):
    explicit, none = {"ack_policy": "explicit"}, {"ack_policy": "none"}
    beats = {"idle_heartbeat": NS // 5}
    flow = dict(beats, flow_control=True)
    ordered = dict(none, idle_heartbeat=5 * NS, flow_control=True, max_deliver=1, ack_wait=79200 * NS, mem_storage=True, num_replicas=1)
    cases = [
        none, explicit, dict(none, filter_subject="a.1"), dict(explicit, headers_only=True),
        dict(explicit, ack_wait=NS // 4, max_deliver=2, filter_subject="a.h"), dict(none, deliver_policy="new"),
        dict(none, deliver_policy="last_per_subject", filter_subject="a.*"), dict(explicit, max_ack_pending=2),
        dict(none, **beats), dict(none, filter_subject="a.0", **beats), dict(none, **flow), ordered,
        dict(ordered, deliver_policy="last_per_subject", filter_subject="a.>"), dict(explicit, deliver_group="g"),
    ]
    for number, case in enumerate(cases):
        to, group = "d.%d" % number, case.get("deliver_group", "")
        for server in scene.servers():
            server.send(b"SUB %s %s %d\r\n" % (to.encode(), group.encode(), 100 + number))
        scene.beside.given_up = case.get("max_deliver") == 2
        consumer(scene, "P", deliver_subject=to, **case)
        scene.compare("pushed", case, *[alike(server.arrived(0.9)) for server in scene.servers()])
        # One after the other: how many are left depends on when the first is delivered.
        for subject in ["a.0", "a.9"]:
            scene.publish([subject])
            scene.compare("pushed later", case, *[alike(server.arrived(0.9)) for server in scene.servers()])
        scene.ask("CONSUMER.INFO.S.P")
        scene.pull("P", "1", timeout=1)
        for server in scene.servers():
            server.send(b"UNSUB %d\r\n" % (100 + number))
            server.arrived(0.2)
        scene.ask("CONSUMER.DELETE.S.P")
    scene.beside.given_up = False
    stalled(scene)


def stalled(scene):
    """A client that does not answer gets two megabytes, and more when it does."""
    for server in scene.servers():
        server.send(b"SUB d.s 99\r\n")
    scene.ask("STREAM.PURGE.S")
    for _ in range(40):
        scene.beside.publish("a.large", "", "x" * 100_000)
    consumer(scene, "P", deliver_subject="d.s", ack_policy="none", flow_control=True, idle_heartbeat=NS // 5)
    for _ in range(3):
        got = [server.arrived(1.5) for server in scene.servers()]
        scene.compare("pushed until it stalls", "", *[alike(one) for one in got])
        for server, one in zip(scene.servers(), got):
            asked = [reply for _, reply, headers, _ in one if "FlowControl" in headers]
            for reply in asked[-1:]:
                server.send(b"PUB %s 0\r\n\r\n" % reply.encode())
    for server in scene.servers():
        server.send(b"UNSUB 99\r\n")
        server.arrived(0.5)
    scene.ask("CONSUMER.DELETE.S.P")
