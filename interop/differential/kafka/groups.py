"""Operations on classic groups, groups of KIP-848, and offsets.

Members are m0, m1, ...; a member's id is the one that the server gave it or, with the new protocol, that it
was told to use.
"""
import struct, threading, time
from side import GROUP_KEY, PASSING, PATIENCE_SECONDS, Gone, kproto

JOIN_SECONDS_MAX, JOIN_ROUNDS_MAX, REBALANCE_MS = 8, 8, 2000
# Longer than Kafka takes to start on a busy machine (45 s were seen): no member sends heartbeats meanwhile.
SESSION_MS = 300_000
SETTLE_SECONDS_MAX = 10
LEAVE_EPOCH, JOIN_EPOCH = -1, 0
# The groups of a conversation that may be listed.
GROUPS = range(3)


def text(value):
    return struct.pack(">h", len(value)) + value.encode()


def subscription(topics, data):
    return struct.pack(">hi", 0, len(topics)) + b"".join(map(text, topics)) + struct.pack(">i", len(data)) + data


def settled(state):
    """On the way to its assignment a group of KIP-848 goes through states at the server's pace.
    `consumer_settle` compares the final state."""
    return "Stable" if state in ("Assigning", "Reconciling") else state


class Groups:
    def group_name(self, g):
        return "" if g == "empty" else f"{self.prefix}-g{g}"

    def short(self, name):
        return name[len(self.prefix) + 1:] if name.startswith(self.prefix) else name

    def names_of(self, g, ids):
        """Members' names instead of their ids."""
        known = {member["id"]: m for (group, m), member in self.members.items() if group == g}
        return sorted(known.get(one, "somebody") for one in ids)

    # ---- classic ----

    def join(self, g, ms, topics, protocol):
        """Members join, and join again until all that may are in one generation, as clients do. The server
        chooses the leader."""
        self.find(GROUP_KEY, self.group_name(g))
        shown, led, left = {}, [], list(ms)
        for _ in range(JOIN_ROUNDS_MAX):
            answers, threads = {}, []
            for m in left:
                early = [m for m, found in answers.items() if found and found[0]["ErrorCode"] == 0]
                answers[m] = self.join_begun(g, m, topics, protocol, threads)
            # Wait for members that were answered before the last one came.
            for m in early:
                answers[m] = self.join_begun(g, m, topics, protocol, threads)
            for thread in threads:
                thread.join(JOIN_SECONDS_MAX)
            for m, found in answers.items():
                shown[m] = self.joined(g, m, found[0] if found else None, led)
            newest = max([self.members[(g, m)]["generation"] for m in ms], default=-1)
            # A member that was too late for a rebalance, or was taken for gone, joins again, and the others
            # with it.
            left = [m for m in ms if shown[m][0] in (0, 25)]
            if not any(shown[m][0] == 25 or self.members[(g, m)]["generation"] < newest for m in left):
                break
        for (group, _), known in self.members.items():
            if group == g and known["generation"] < newest:
                known["leads"] = False
        # Sync at once: a member that waits longer than the rebalance may take is removed, and the machine
        # decides how long that is.
        return [[m, *shown[m]] for m in ms] + led[-1:] + self.sync(g, "first", 0)

    def joined(self, g, m, answer, led):
        """The parts of one answer that are compared. The leader's names the members."""
        if answer is None:
            return ["no answer"]
        if answer["ErrorCode"] == 25:  # UNKNOWN_MEMBER_ID
            self.members[(g, m)] |= {"id": "", "leads": False}
        if answer["ErrorCode"]:
            return [answer["ErrorCode"]]
        leads = answer["Leader"] == answer["MemberId"]
        self.members[(g, m)] |= {"id": answer["MemberId"], "generation": answer["GenerationId"], "leads": leads}
        if leads:
            led.append(self.names_of(g, [one["MemberId"] for one in answer["Members"]]))
        return [0, answer["ProtocolName"], answer["ProtocolType"]]

    def join_begun(self, g, m, topics, protocol, threads):
        known = self.members.setdefault((g, m), {"id": "", "generation": -1})
        names = [self.topic_name(t) for t in topics]
        # Each join changes something, and so makes a new generation: without a change the result depends on
        # the leader.
        known["joins"] = known.get("joins", 0) + 1
        metadata = subscription(names, struct.pack(">i", known["joins"]))
        body = {"GroupId": self.group_name(g), "SessionTimeoutMs": SESSION_MS, "RebalanceTimeoutMs": REBALANCE_MS, "MemberId": known["id"],
                "GroupInstanceId": None, "ProtocolType": "consumer", "Protocols": [{"Name": protocol, "Metadata": metadata}]}
        if not known["id"]:
            first = self.call("JoinGroup", 7, body)
            if first["ErrorCode"] != 79:  # MEMBER_ID_REQUIRED
                return [first]
            body["MemberId"] = known["id"] = first["MemberId"]
        result = []

        def run():
            try:
                connection = self.side.connect()
                answer, end = connection.call("JoinGroup", 7, body), time.monotonic() + PATIENCE_SECONDS
                # After a restart the coordinator may still be reading its groups.
                while answer["ErrorCode"] in PASSING and time.monotonic() < end:
                    time.sleep(0.01)
                    answer = connection.call("JoinGroup", 7, body)
                result.append(answer)
                connection.close()
            except (OSError, kproto.Closed):
                pass
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        threads.append(thread)
        # The next one joins when this one is answered or waits: the first member to join leads.
        self.until(lambda: result or self.waits(g, known["id"]), 3)
        return result

    def waits(self, g, member):
        group = self.call("DescribeGroups", 5, {"Groups": [self.group_name(g)]})["Groups"][0]
        return group["GroupState"] == "PreparingRebalance" and member in [one["MemberId"] for one in group["Members"]]

    def sync(self, g, part, shift):
        """All members, the leader first. Part: what every member gets from the leader, whichever member that
        is."""
        ours = sorted(m for (group, m), known in self.members.items() if group == g and known["id"] and "epoch" not in known)
        first = sorted(ours, key=lambda m: not self.members[(g, m)].get("leads", False))
        return sorted([m, *self.sync_one(g, m, part, shift)] for m in first)

    def sync_one(self, g, m, part, shift):
        known = self.members[(g, m)]
        assignments = [{"MemberId": other["id"], "Assignment": part.encode()} for (group, _), other in sorted(self.members.items())
                       if group == g and other["id"]]
        body = {"GroupId": self.group_name(g), "GenerationId": known["generation"] + shift, "MemberId": known["id"],
                "Assignments": assignments}
        try:
            # A follower waits for its leader, which may never come. The leader waits for the disk only.
            answer = self.call("SyncGroup", 4, body, seconds=None if known.get("leads") else 1)
        except Gone:
            return ["waits"]
        return [answer["ErrorCode"], answer["Assignment"].decode(errors="replace")]

    def heartbeat(self, g, m, shift):
        known = self.members.get((g, m))
        if known is None:
            return "nobody"
        body = {"GroupId": self.group_name(g), "GenerationId": known["generation"] + shift, "MemberId": known["id"]}
        return self.call("Heartbeat", 4, body)["ErrorCode"]

    def leave(self, g, m):
        known = self.members.get((g, m))
        if known is None:
            return "nobody"
        answer = self.call("LeaveGroup", 4, {"GroupId": self.group_name(g), "Members": [{"MemberId": known["id"]}]})
        if answer["ErrorCode"] == 0:
            self.members[(g, m)] = {"id": "", "generation": -1}
        return [answer["ErrorCode"], [one["ErrorCode"] for one in answer["Members"]]]

    def describe_group(self, g, version):
        answer = self.call("DescribeGroups", version, {"Groups": [self.group_name(g)]})["Groups"][0]
        members = sorted([self.names_of(g, [one["MemberId"]])[0], len(one["MemberMetadata"]), one["MemberAssignment"].decode(errors="replace")]
                         for one in answer["Members"])
        return [answer["ErrorCode"], answer["GroupState"], answer["ProtocolType"], answer["ProtocolData"], members]

    def list_groups(self, states, types):
        if self.restarts:
            # After a restart Kafka leaves out the groups of partitions that it is still reading. A request
            # for one waits until they are read.
            for g in GROUPS:
                self.call("DescribeGroups", 5, {"Groups": [self.group_name(g)]})
        answer = self.call("ListGroups", 5, {"StatesFilter": states, "TypesFilter": types})
        own = [one for one in answer["Groups"] if one["GroupId"].startswith(self.prefix)]
        return [answer["ErrorCode"], sorted([self.short(one["GroupId"]), one["ProtocolType"], settled(one["GroupState"]), one["GroupType"]] for one in own)]

    def delete_group(self, g):
        """Deletes the group. Also returns the offsets that it held."""
        held = self.fetch_offsets(g, False)
        return [self.call("DeleteGroups", 2, {"GroupsNames": [self.group_name(g)]})["Results"][0]["ErrorCode"], held]

    # ---- offsets ----

    def commit(self, g, m, places, offset, shift, version):
        """By a member, or without one. The generation, or the epoch, is off by the shift."""
        self.find(GROUP_KEY, self.group_name(g))
        known = self.members.get((g, m)) if m else None
        stage = -1 if known is None else known.get("epoch", known["generation"]) + shift
        topics = [{"Name": self.topic_name(t), "TopicId": self.topics.get(t, bytes(16)), "Partitions": [{"PartitionIndex": p, "CommittedOffset": offset}]}
                  for t, p in places]
        topics = [{k: v for k, v in one.items() if k != ("Name" if version >= 10 else "TopicId")} for one in topics]
        body = {"GroupId": self.group_name(g), "GenerationIdOrMemberEpoch": stage, "MemberId": known["id"] if known else "", "Topics": topics}
        answer = self.call("OffsetCommit", version, body)
        return sorted([p["PartitionIndex"], p["ErrorCode"]] for topic in answer["Topics"] for p in topic["Partitions"])

    def fetch_offsets(self, g, stable):
        body = {"Groups": [{"GroupId": self.group_name(g), "MemberId": None, "MemberEpoch": -1, "Topics": None}], "RequireStable": stable}
        group = self.call("OffsetFetch", 9, body)["Groups"][0]
        found = sorted([self.short(topic["Name"]), p["PartitionIndex"], p["CommittedOffset"], p["ErrorCode"]]
                       for topic in group["Topics"] for p in topic["Partitions"])
        return [group["ErrorCode"], found]

    def delete_offsets(self, g, places):
        """Deletes offsets of the group. Also returns the offsets that it held."""
        held = self.fetch_offsets(g, False)
        topics = [{"Name": self.topic_name(t), "Partitions": [{"PartitionIndex": p}]} for t, p in places]
        answer = self.call("OffsetDelete", 0, {"GroupId": self.group_name(g), "Topics": topics})
        return [answer["ErrorCode"], sorted([self.short(topic["Name"]), p["PartitionIndex"], p["ErrorCode"]]
                                            for topic in answer["Topics"] for p in topic["Partitions"]), held]

    # ---- KIP-848 ----

    def consumer_body(self, g, m, epoch, topics, owned):
        return {"GroupId": self.group_name(g), "MemberId": self.members[(g, m)]["id"], "MemberEpoch": epoch, "InstanceId": None, "RackId": None,
                "RebalanceTimeoutMs": 30_000 if topics is not None else -1, "SubscribedTopicNames": topics, "SubscribedTopicRegex": None,
                "ServerAssignor": None, "TopicPartitions": owned}

    def consumer_heartbeat(self, g, m, how, topics, shift):
        """how: join, stay or leave. The epoch is off by the shift."""
        self.find(GROUP_KEY, self.group_name(g))
        if how == "join":
            self.members[(g, m)] = {"id": f"{self.prefix}-{g}-{m}-member", "generation": -1, "epoch": JOIN_EPOCH, "owned": []}
        known = self.members.get((g, m))
        if known is None or "epoch" not in known:
            return "nobody"
        epoch = {"join": JOIN_EPOCH, "leave": LEAVE_EPOCH}.get(how, known["epoch"] + shift)
        names = [self.topic_name(t) for t in topics] if how == "join" else None
        answer = self.call("ConsumerGroupHeartbeat", 0, self.consumer_body(g, m, epoch, names, [] if how == "join" else None))
        if answer["ErrorCode"] == 0:
            if how == "leave":
                del self.members[(g, m)]
            else:
                self.taken(known, answer)
        return [answer["ErrorCode"], "moves" if how != "leave" and answer["MemberEpoch"] else answer["MemberEpoch"]]

    def taken(self, known, answer):
        known["epoch"] = answer["MemberEpoch"]
        if answer["Assignment"] is not None:
            known["owned"] = [{"TopicId": one["TopicId"], "Partitions": sorted(one["Partitions"])} for one in answer["Assignment"]["TopicPartitions"]]

    def consumer_settle(self, g):
        """All members send heartbeats until each has its target assignment. Compares what they then have:
        which partitions, and how evenly."""
        ours = sorted(m for (group, m), known in self.members.items() if group == g and "epoch" in known and "share" not in known)
        codes, quiet, end = set(), 0, time.monotonic() + SETTLE_SECONDS_MAX
        while time.monotonic() < end:
            before = [(self.members[(g, m)]["epoch"], self.members[(g, m)]["owned"]) for m in ours]
            for m in ours:
                known = self.members[(g, m)]
                answer = self.call("ConsumerGroupHeartbeat", 0, self.consumer_body(g, m, known["epoch"], None, known["owned"]))
                codes.add(answer["ErrorCode"])
                if answer["ErrorCode"] == 0:
                    self.taken(known, answer)
            after = [(self.members[(g, m)]["epoch"], self.members[(g, m)]["owned"]) for m in ours]
            quiet = quiet + 1 if before == after else 0
            if quiet >= 3 and self.consumer_state(g) in ("Stable", "Empty", "Dead", ""):
                break
            time.sleep(0.03)
        by_id = {str(value): f"t{key}" for key, value in self.topics.items()}
        all_ = sorted([by_id.get(one["TopicId"], "?"), p] for m in ours for one in self.members[(g, m)]["owned"] for p in one["Partitions"])
        sizes = sorted(sum(len(one["Partitions"]) for one in self.members[(g, m)]["owned"]) for m in ours)
        return [sorted(codes - {0}), all_, sizes, self.consumer_state(g)]

    def consumer_state(self, g):
        return self.call("ConsumerGroupDescribe", 1, {"GroupIds": [self.group_name(g)]})["Groups"][0]["GroupState"]

    def describe_consumer_group(self, g):
        group = self.call("ConsumerGroupDescribe", 1, {"GroupIds": [self.group_name(g)]})["Groups"][0]
        names = self.names_of(g, [one["MemberId"] for one in group["Members"]])
        topics = sorted({self.short(name) for one in group["Members"] for name in one["SubscribedTopicNames"]})
        return [group["ErrorCode"], settled(group["GroupState"]), group["AssignorName"], names, topics]
