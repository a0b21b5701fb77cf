"""What came, without what may differ between two runs of one and the same server.

Not compared:
* INFO: names, ids, versions, addresses, ports, times, and the fields of JetStream and accounts. INFO_FIELDS
  are compared.
* PING of the server, which comes by its own clock.
* Advisories of nats-server under `$SYS.`, and traces to `nobody.hears`: tailrace sends neither.
* Which member of a queue group got a message: those of a group are compared as a whole, in any order, and
  without headers if a member takes none.
* The order in which one message comes to several subscriptions of one connection.
* The sid of a 503: nats-server takes the plain subscription that its matcher finds first, tailrace the
  oldest.
* When the acknowledgement of a captured message comes, and the number of the first one: later ones are
  counted from there.
* The id of the stream's last message if another one was expected: tailrace knows no ids (docs/mapping.md),
  and it may be from an earlier conversation.
* How often in a row a pedantic client is told of an invalid subject: nats-server says it again when the
  payload comes in another read.
* Texts of WebSocket's closing frames; their codes are compared.
* The last words to a WebSocket connection that breaks the protocol: nats-server closes it without its answer
  to the last read, and without a closing frame. Whatever it did send must be what tailrace sent first, and
  tailrace must close with 1002.
"""
import json, re

INFO_FIELDS = ("proto", "headers", "auth_required", "tls_required", "tls_verify", "tls_available", "max_payload", "ldm", "connect_info", "api_lvl", "client_ip")
# Subjects of acknowledgements: `ack.` of a conversation, with the number of the play in it, so that a late
# one is not taken for another play's.
LATE_ACK = re.compile(rb"ack[0-9]+\.")
LAST_ID = re.compile(rb'(?<=wrong last msg ID: )[^"]+')
INVALID = b"-ERR 'Invalid Publish Subject'"
SEQUENCE = re.compile(rb'"seq":\s?([1-9][0-9]*)')


def transcript(people, play):
    """Name of a connection, or of a queue group, -> what came."""
    came, groups, acks = {}, {}, []
    bare = {queue for person in people.values() if not person.takes_headers for queues in person.subscriptions.values() for queue in queues if queue}
    for name, person in people.items():
        own = []
        for verb, text in person.found:
            if verb == "PING":
                continue
            text = text.replace(b"ack%d." % play, b"ack.").replace(b"Nats-Msg-Id: %08d-" % play, b"Nats-Msg-Id: 00000000-")
            if verb == "INFO":
                own.append(info(text))
                continue
            if verb not in ("MSG", "HMSG"):
                if text != INVALID or own[-1:] != [INVALID]:
                    own.append(text)
                continue
            line, body = text.split(b"\r\n", 1)
            words = line.split(b" ")
            # The server's own message that nobody listens has no payload; a client may publish such a block
            # with one.
            if body.startswith(b"NATS/1.0 503\r\n") and words[-2] == words[-1]:
                words[2] = b"*"
            if words[1].startswith(b"$SYS.") or words[1] == b"nobody.hears" or LATE_ACK.match(words[1]):
                continue
            if words[1].startswith(b"ack."):
                acks.append((words[1], b" ".join(words[3:-1]), LAST_ID.sub(b"", body)))
                continue
            queues = person.subscriptions.get(words[2], {None})
            if queues - {b"", None}:
                message = (words[0], words[1], *words[3:], body)
                if queues & bare and words[0] == b"HMSG":
                    header, total = int(words[-2]), int(words[-1])
                    message = (b"MSG", words[1], *words[3:-2], b"%d" % (total - header), body[header:])
                groups.setdefault(b",".join(sorted(queue or b"" for queue in queues)), []).append(message)
                continue
            own.append((words[0], words[1], tuple(words[3:]), body, words[2]))
        came[name] = {"head": person.head, "frames": in_order(own), "ended": person.ended, "rest": bytes(person.payload), "control": person.control}
    return came | {f"group {queue.decode('latin1')}": sorted(messages, key=repr) for queue, messages in groups.items()} | {"acks": counted(acks)}


def same(theirs, ours):
    silent = any(ends_in_silence(theirs[name], ours[name]) for name in theirs.keys() & ours.keys())
    if silent:
        # Messages of a queue group there are lost, too.
        pools = [name for name in theirs.keys() | ours.keys() if not isinstance(ours.get(name, theirs.get(name)), dict)]
        return all(set(theirs.get(name, [])) <= set(ours.get(name, [])) for name in pools) and all(alike(theirs[name], ours[name]) for name in theirs if name not in pools)
    return theirs.keys() == ours.keys() and all(alike(theirs[name], ours[name]) for name in theirs)


def alike(theirs, ours):
    """Whether two entries of transcripts are the same in all that is compared."""
    if theirs == ours:
        return True
    return ends_in_silence(theirs, ours) and theirs["frames"] == ours["frames"][: len(theirs["frames"])]


def ends_in_silence(theirs, ours):
    """A WebSocket connection that broke the protocol."""
    if not isinstance(theirs, dict) or not isinstance(ours, dict) or theirs["head"] != 101:
        return False
    return theirs["ended"] and not theirs["control"] and ours["ended"] and ours["control"] == [("closes", 1002)]


def info(line):
    """An INFO that is not JSON is compared as it is."""
    try:
        fields = json.loads(line[len(b"INFO ") :])
    except ValueError:
        return line
    return b"INFO " + json.dumps({name: fields[name] for name in INFO_FIELDS if name in fields}).encode()


def in_order(frames):
    """Copies of one message to several subscriptions, by sid."""
    sorted_frames, at = [], 0
    while at < len(frames):
        end = at + 1
        if isinstance(frames[at], tuple):
            while end < len(frames) and isinstance(frames[end], tuple) and frames[end][1:4] == frames[at][1:4]:
                end += 1
            sorted_frames += sorted(frames[at:end])
        else:
            sorted_frames.append(frames[at])
        at = end
    return sorted_frames


def counted(acks):
    """Acknowledgements by their subjects, numbered from the first one."""
    first, numbered = None, []
    for subject, reply, body in sorted(acks):
        match = SEQUENCE.search(body)
        if match:
            number = int(match[1])
            first = number if first is None else first
            body = body[: match.start(1)] + b"+%d" % (number - first) + body[match.end(1) :]
        numbered.append((subject, reply, body))
    return numbered
