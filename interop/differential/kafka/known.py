"""Differences that are known and documented. The list must shrink: a long run names every entry that it did
not meet.

Each entry names its documentation, and says of an operation with both answers whether it is this difference.
After a difference that `parts` the servers, they hold different things, and the conversation ends.
"""


def beside(kafka, tailrace, *indexes):
    """Whether they are equal except at these places of two lists."""
    if not (isinstance(kafka, list) and isinstance(tailrace, list) and len(kafka) == len(tailrace)):
        return False
    return all(index in indexes or one == other for index, (one, other) in enumerate(zip(kafka, tailrace)))


# `share.delivery.count.limit`
DELIVERIES_MAX = 5
CORRUPT_MESSAGE = 2
GROUP_ID_NOT_FOUND = 69
KNOWN = []
PARTING = set()


def known(name, where, parts=False):
    def add(matches):
        KNOWN.append((name, where, matches))
        if parts:
            PARTING.add(name)
        return matches
    return add


@known("repeated batches of an ended transaction", "docs/guarantees.md: answered as the first time, without asking the coordinator")
def repeated(name, arguments, kafka, tailrace):
    if name != "produce_transactional" or kafka[0] not in (47, 48, 120):
        return False
    # The bytes are checked then. Without a shift it may also be a repetition: batches with a shift have not
    # moved the sequence on.
    if arguments["how"] == "crc":
        return tailrace[0] == CORRUPT_MESSAGE
    # A zombie starts at 0 again, and what its epoch wrote there may not have been part of a transaction. If
    # it were stored, reads would differ.
    return tailrace[0] == 0 and (arguments["shift"] < 0 or arguments["zombie"])


@known("starts of share-partitions", "docs/share-groups.md: written when a member first reads, and when what is accepted is passed")
def share_starts(name, arguments, kafka, tailrace):
    if name != "share_offsets" or kafka[0] or tailrace[0] or [row[:2] for row in kafka[1]] != [row[:2] for row in tailrace[1]]:
        return False
    return all(one[3:] == other[3:] or one[2:4] == [-1, -1] for one, other in zip(kafka[1], tailrace[1]))


@known("producers of a partition without records", "docs/guarantees.md: Kafka forgets them at a restart, tailrace does not")
def producers_without_records(name, arguments, kafka, tailrace):
    return name == "describe_producers" and kafka == [0, []] and tailrace[0] == 0


@known("the time of what a producer wrote outside, behind a transaction", "docs/kafka.md: tailrace tells the marker's")
def time_behind_a_transaction(name, arguments, kafka, tailrace):
    if name != "describe_producers" or kafka[0] or tailrace[0] or len(kafka[1]) != len(tailrace[1]):
        return False
    differing = [(one, other) for one, other in zip(kafka[1], tailrace[1]) if one != other]
    return all(beside(one, other, 2) and (one[2], other[2], one[4]) == ("given", "clock", -1) for one, other in differing)


@known("the newest time of records that were deleted", "docs/kafka.md: Kafka may name an offset below the log start")
def time_of_deleted_records(name, arguments, kafka, tailrace):
    if name != "list_offsets" or arguments["timestamp"] != -3 or [*kafka[::2]] != [*tailrace[::2]] or kafka[0]:
        return False
    start = kafka[2]
    return 0 <= kafka[1] < start and (tailrace[1] == -1 or tailrace[1] >= start)


@known("groups that hold nothing", "docs/groups.md: forgotten at once, by Kafka with its next look at what has expired")
def empty_groups(name, arguments, kafka, tailrace):
    if name == "describe_group":
        return kafka == [0, "Empty", "", "", []] and tailrace[1] == "Dead"
    if name == "list_groups" and kafka[0] == 0 and tailrace[0] == 0:
        return [row for row in kafka[1] if row in tailrace[1] or row[2] != "Empty"] == tailrace[1]
    if name in ("delete_group", "delete_offsets"):
        return kafka[0] == 0 and tailrace[0] == GROUP_ID_NOT_FOUND and kafka[-1] == tailrace[-1] == [0, []]
    return False


@known("how few come of what was delivered often", "docs/share-groups.md: half of what lies there in a row, not of what was once given out together", parts=True)
def few_of_often_delivered(name, arguments, kafka, tailrace):
    if name != "share_fetch" or len(kafka) != 3 or len(tailrace) != 3 or kafka[0] or tailrace[0]:
        return False
    few, more = sorted((kafka[1], tailrace[1]), key=len)
    return 0 < len(few) < len(more) and more[:len(few)] == few and few[0][1] > DELIVERIES_MAX // 2


def which(operation, kafka, tailrace):
    name, arguments = operation
    for known_name, _, matches in KNOWN:
        if matches(name, arguments, kafka, tailrace):
            return known_name
    return None
