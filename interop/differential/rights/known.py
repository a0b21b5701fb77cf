"""Differences that are known, with the reason. docs/security.md lists them for users.

Each entry says of one differing value whether it is this difference: of which API and version, where in the
answer, and what both servers say. Entries that did not show in a long run are named by it.
"""
KNOWN = []
GROUP_ID_NOT_FOUND, CLUSTER_REFUSED = 69, 31


def known(reason):
    def add(matches):
        KNOWN.append((reason, matches))
        return matches
    return add


def pairs(kafka, tailrace, path=""):
    """Every two values that differ, with the names of the fields that lead to them, and what they lie in."""
    if isinstance(kafka, dict) and isinstance(tailrace, dict) and kafka.keys() == tailrace.keys():
        for key in kafka:
            for where, one, other, inside in pairs(kafka[key], tailrace[key], f"{path}.{key}"):
                yield where, one, other, inside or (kafka, tailrace)
    elif isinstance(kafka, list) and isinstance(tailrace, list) and len(kafka) == len(tailrace):
        for one, other in zip(kafka, tailrace):
            yield from pairs(one, other, path)
    elif kafka != tailrace:
        yield path.removeprefix("."), kafka, tailrace, None


@known("the wording of messages; one where Kafka has none")
def words(api, version, path, kafka, tailrace, inside):
    return path.endswith("ErrorMessage") and (bool(tailrace) or kafka in (None, "", "NONE"))


@known("a topic that is created automatically is there at once (docs/kafka.md)")
def made(api, version, path, kafka, tailrace, inside):
    return api == "Metadata" and path in ("Topics.ErrorCode", "Topics.Partitions") and (inside[0]["ErrorCode"], inside[1]["ErrorCode"]) in ((3, 0), (5, 0))


@known("what a refused DescribeUserScramCredentials, AlterPartitionReassignments or ListPartitionReassignments repeats of its request")
def repeated(api, version, path, kafka, tailrace, inside):
    refused = inside is not None and inside[0].get("ErrorCode") == inside[1].get("ErrorCode") == CLUSTER_REFUSED
    return refused and tailrace == [] and (api, path) in (("DescribeUserScramCredentials", "Results"), ("AlterPartitionReassignments", "Responses"), ("ListPartitionReassignments", "Topics"))


@known("a rule for ANY operation or without a colon in CreateAcls: Kafka fails with an unknown error")
def bad_rule(api, version, path, kafka, tailrace, inside):
    return api == "CreateAcls" and path == "Results.ErrorCode" and (kafka, tailrace) == (-1, 42)


@known("the regular expression of a member that has none: null, not empty")
def no_expression(api, version, path, kafka, tailrace, inside):
    return api == "ConsumerGroupDescribe" and path == "Groups.Members.SubscribedTopicRegex" and (kafka, tailrace) == ("", None)


@known("offsets of a share group that does not exist: Kafka has none, tailrace has no group")
def no_share_group(api, version, path, kafka, tailrace, inside):
    if api != "DescribeShareGroupOffsets" or inside is None:
        return False
    return inside[1].get("ErrorCode") == GROUP_ID_NOT_FOUND and inside[0].get("ErrorCode") == 0


def which(api, version, kafka, tailrace):
    """The reasons of all differences of two answers; None if one of them has none."""
    reasons = set()
    for path, one, other, inside in pairs(kafka, tailrace):
        reason = next((reason for reason, matches in KNOWN if matches(api, version, path, one, other, inside)), None)
        if reason is None:
            return None
        reasons.add(reason)
    return reasons
