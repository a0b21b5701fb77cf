"""Operations on share groups (KIP-932)."""
import time, uuid
from records import seen
from side import GROUP_KEY, Gone
from groups import JOIN_EPOCH, LEAVE_EPOCH

RELEASE, LAST_SESSION_EPOCH, NOT_LEADER_OR_FOLLOWER = 2, -1, 6
GROUP_RESOURCE, SETTLE_SECONDS_MAX = 32, 8
FETCHES, FETCHES_AFTER_A_RESTART = 3, 15


class Shares:
    """`members[(g, m)]` of a share group have "share", and the epoch of their session."""

    def share_configure(self, g, name, value):
        change = {"Name": name, "ConfigOperation": 0, "Value": value}
        body = {"Resources": [{"ResourceType": GROUP_RESOURCE, "ResourceName": self.group_name(g), "Configs": [change]}]}
        code = self.call("IncrementalAlterConfigs", 1, body)["Responses"][0]["ErrorCode"]
        if code == 0:
            self.until(lambda: any(c["Name"] == name and c["Value"] == value for c in self.group_configs(g)))
        return code

    def group_configs(self, g):
        body = {"Resources": [{"ResourceType": GROUP_RESOURCE, "ResourceName": self.group_name(g), "ConfigurationKeys": None}]}
        return self.call("DescribeConfigs", 4, body)["Results"][0]["Configs"]

    def share_heartbeat(self, g, m, how, topics, shift):
        self.find(GROUP_KEY, self.group_name(g))
        if how == "join":
            before = self.members.get((g, m), {})
            self.members[(g, m)] = {"id": before["id"] if "share" in before else str(uuid.uuid4()), "generation": -1, "epoch": JOIN_EPOCH, "owned": [], "share": True,
                                    "session": before.get("session", 0), "fetches": before.get("fetches", [])}
        known = self.members.get((g, m))
        if known is None or "share" not in known:
            return "nobody"
        if how == "leave":
            self.share_end_session(g, known)
        epoch = {"join": JOIN_EPOCH, "leave": LEAVE_EPOCH}.get(how, known["epoch"] + shift)
        names = [self.topic_name(t) for t in topics] if how == "join" else None
        answer = self.share_beat(g, known, epoch, names)
        if answer["ErrorCode"] == 0:
            if how == "leave":
                del self.members[(g, m)]
            else:
                self.taken(known, answer)
        return [answer["ErrorCode"], "moves" if how != "leave" and answer["MemberEpoch"] else answer["MemberEpoch"]]

    def share_end_session(self, g, known):
        """Releases records, as clients do before they leave. Otherwise Kafka keeps acquired records until
        their lock ends, and tailrace gives them back. Records in partitions that the session has forgotten
        are released by name: Kafka forgets who holds them."""
        if known["session"]:
            for t, p, first, last in known.pop("held", []):
                self.share_acknowledge(g, known, t, p, first, last, RELEASE)
            self.call("ShareAcknowledge", 1, {"GroupId": self.group_name(g), "MemberId": known["id"], "ShareSessionEpoch": LAST_SESSION_EPOCH, "Topics": []})
            known["session"], known["fetches"] = 0, []

    def share_beat(self, g, known, epoch, names):
        body = {"GroupId": self.group_name(g), "MemberId": known["id"], "MemberEpoch": epoch, "RackId": None, "SubscribedTopicNames": names}
        return self.call("ShareGroupHeartbeat", 1, body)

    def share_settle(self, g):
        """All members send heartbeats until the partitions that they read are initialised and assigned."""
        ours = sorted(m for (group, m), known in self.members.items() if group == g and "share" in known)
        codes, quiet, began = set(), 0, time.monotonic()
        while time.monotonic() - began < SETTLE_SECONDS_MAX:
            before = [(self.members[(g, m)]["epoch"], self.members[(g, m)]["owned"]) for m in ours]
            for m in ours:
                answer = self.share_beat(g, self.members[(g, m)], self.members[(g, m)]["epoch"], None)
                codes.add(answer["ErrorCode"])
                if answer["ErrorCode"] == 0:
                    self.taken(self.members[(g, m)], answer)
            after = [(self.members[(g, m)]["epoch"], self.members[(g, m)]["owned"]) for m in ours]
            quiet = quiet + 1 if before == after else 0
            # The server makes states of share-partitions after the heartbeats, and assigns a group once a
            # second.
            everything = sum(self.counts.values())
            had = {(one["TopicId"], p) for _, owned in after for one in owned for p in one["Partitions"]}
            if quiet >= (3 if len(had) == everything else 40):
                break
            time.sleep(0.05)
        by_id = {str(value): f"t{key}" for key, value in self.topics.items()}
        all_ = sorted({(by_id.get(one["TopicId"], "?"), p) for m in ours for one in self.members[(g, m)]["owned"] for p in one["Partitions"]})
        return [sorted(codes - {0}), [list(one) for one in all_]]

    def share_fetch(self, g, m, t, p, says):
        """Takes records, then acknowledges each batch of them as told. Compares which records come, and how
        often they came."""
        known = self.members.get((g, m))
        if known is None or "share" not in known or t not in self.topics:
            return "nobody"
        # After a restart Kafka loads the states of share-partitions, and answers without records meanwhile.
        is_first = self.read_since is not None and (g, t, p) not in self.read_since
        if is_first:
            self.read_since.add((g, t, p))
        # Nothing is written while records are only held, so Kafka's leader would continue with what it knew
        # before the change.
        if says is None and (g, t, p) in self.changed:
            says = RELEASE
        for _ in range(FETCHES_AFTER_A_RESTART if is_first else FETCHES):
            # A session continues with this partition alone: records of its other partitions would be taken
            # unseen.
            others = [one for one in known["fetches"] if one != [self.topics[t], p]]
            forgotten = [{"TopicId": topic, "Partitions": [index]} for topic, index in others] if known["session"] else []
            known["fetches"] = [[self.topics[t], p]]
            partition = {"PartitionIndex": p, "AcknowledgementBatches": []}
            body = {"GroupId": self.group_name(g), "MemberId": known["id"], "ShareSessionEpoch": known["session"], "MaxWaitMs": 300, "MinBytes": 1,
                    "MaxBytes": 1 << 22, "MaxRecords": 500, "BatchSize": 500, "Topics": [{"TopicId": self.topics[t], "Partitions": [partition]}],
                    "ForgottenTopicsData": forgotten}
            answer = self.call("ShareFetch", 1, body)
            if answer["ErrorCode"]:
                # SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH: start again, as clients do.
                if answer["ErrorCode"] in (122, 123) and known["session"]:
                    known["session"] = 0
                    continue
                return [answer["ErrorCode"]]
            known["session"] += 1
            acquired, codes = [], []
            rows = [row for topic in answer["Responses"] for row in topic["Partitions"] if topic["TopicId"] == self.topics[t] and row["PartitionIndex"] == p]
            if not rows or not (rows[0]["ErrorCode"] or rows[0]["AcquiredRecords"]):
                continue
            acquired = [[one["FirstOffset"], one["LastOffset"], one["DeliveryCount"]] for one in rows[0]["AcquiredRecords"] or []]
            if says is None:
                known.setdefault("held", []).extend([t, p, first, last] for first, last, _ in acquired)
            codes = [self.share_acknowledge(g, known, t, p, first, last, says) for first, last, _ in acquired] if says else []
            # Kafka's leader notices only when it writes that offsets were altered or deleted. It hands out
            # the records once more.
            if NOT_LEADER_OR_FOLLOWER not in codes:
                if codes:
                    self.changed.discard((g, t, p))
                break
        if not rows:
            return [0, []]
        took = sorted([offset, count] for first, last, count in acquired for offset in range(first, last + 1))
        return [rows[0]["ErrorCode"], took, sorted(set(codes))]

    def share_acknowledge(self, g, known, t, p, first, last, says):
        partition = {"PartitionIndex": p, "AcknowledgementBatches": [{"FirstOffset": first, "LastOffset": last, "AcknowledgeTypes": [says]}]}
        body = {"GroupId": self.group_name(g), "MemberId": known["id"], "ShareSessionEpoch": known["session"],
                "Topics": [{"TopicId": self.topics[t], "Partitions": [partition]}]}
        answer = self.call("ShareAcknowledge", 1, body, passing=set())
        if answer["ErrorCode"] == 0:
            known["session"] += 1
        return answer["ErrorCode"] or max(row["ErrorCode"] for topic in answer["Responses"] for row in topic["Partitions"])

    def share_alter(self, g, places, offset):
        self.find(GROUP_KEY, self.group_name(g))
        topics = [{"TopicName": self.topic_name(t), "Partitions": [{"PartitionIndex": p, "StartOffset": offset}]} for t, p in places]
        answer = self.call("AlterShareGroupOffsets", 0, {"GroupId": self.group_name(g), "Topics": topics})
        self.changed.update((g, t, p) for t, p in places)
        return [answer["ErrorCode"], sorted([self.short(topic["TopicName"]), p["PartitionIndex"], p["ErrorCode"]]
                                            for topic in answer["Responses"] for p in topic["Partitions"])]

    def share_delete(self, g, ts):
        topics = [{"TopicName": self.topic_name(t)} for t in ts]
        answer = self.call("DeleteShareGroupOffsets", 0, {"GroupId": self.group_name(g), "Topics": topics})
        self.changed.update((g, t, p) for t in ts for p in range(self.counts.get(t, 0)))
        return [answer["ErrorCode"], sorted([self.short(topic["TopicName"]), topic["ErrorCode"]] for topic in answer["Responses"])]

    def share_offsets(self, g):
        group = self.call("DescribeShareGroupOffsets", 1, {"Groups": [{"GroupId": self.group_name(g), "Topics": None}]})["Groups"][0]
        found = sorted([self.short(topic["TopicName"]), p["PartitionIndex"], p["StartOffset"], p["Lag"], p["ErrorCode"]]
                       for topic in group["Topics"] for p in topic["Partitions"])
        return [group["ErrorCode"], found]

    def describe_share_group(self, g):
        group = self.call("ShareGroupDescribe", 1, {"GroupIds": [self.group_name(g)]})["Groups"][0]
        names = self.names_of(g, [one["MemberId"] for one in group["Members"]])
        return [group["ErrorCode"], group["GroupState"], group["AssignorName"], names]
