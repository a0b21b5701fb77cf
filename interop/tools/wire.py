"""How long a server takes by the kernel's clock, for any client: wire.py PROTOCOL PORT WARM_UP_SECONDS BYTES

Runs until SIGINT or SIGTERM. Reads the packets on the loopback device with the kernel's own timestamps
(SO_TIMESTAMPNS, socket(7)), and matches the n-th request of a client with the n-th answer of the server, in
one stream of messages (PROTOCOL echo, nats or redis; BYTES of a message for echo). Prints "ready", and at its
end p50 and p99 between the two in microseconds, and their number. Anything that a generator reports beyond
that is its own: how late it sent, and how long its reader took to wake up and look at the clock. Needs root
(CAP_NET_RAW). Status 1 if the numbers of requests and answers differ.
"""
import re
import signal
import socket
import struct
import sys

SO_TIMESTAMPNS, PACKET_OUTGOING, ETH_P_ALL = 35, 4, 3
PATTERNS = {"nats": (rb"(?:^|\n)H?PUB ", rb"(?:^|\n)H?MSG "), "redis": (rb"(?i)\r\n(?:s?publish)\r\n", rb"\r\ns?message\r\n")}


class Count:
    """Counts messages that start in packets of one direction."""

    def __init__(self, protocol, side, size):
        self.pattern = re.compile(PATTERNS[protocol][side]) if protocol in PATTERNS else None
        self.size, self.bytes = size, 0

    def take(self, payload):
        if self.pattern:
            return len(self.pattern.findall(payload))
        before, self.bytes = self.bytes // self.size, self.bytes + len(payload)
        return self.bytes // self.size - before


def packets(port):
    """Yields when each packet with payload was handed to the device, whether it goes to the server, and the
    payload."""
    device = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    device.bind(("lo", 0))
    device.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    device.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
    print("ready", flush=True)
    while True:
        packet, ancillary, _, address = device.recvmsg(70_000, 64)
        if address[2] != PACKET_OUTGOING or len(packet) < 54 or packet[12:14] != b"\x08\x00" or packet[23] != socket.IPPROTO_TCP:
            continue
        tcp = 14 + (packet[14] & 15) * 4
        source, destination = struct.unpack_from(">HH", packet, tcp)
        end = 14 + struct.unpack_from(">H", packet, 16)[0]
        payload = packet[tcp + (packet[tcp + 12] >> 4) * 4:end]
        if payload and port in (source, destination):
            seconds, nanoseconds = struct.unpack("qq", ancillary[0][2])
            yield seconds * 1_000_000_000 + nanoseconds, destination == port, payload


def main():
    protocol, port, warm_up, size = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])

    def stop(*_):
        raise KeyboardInterrupt
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    counts, times = (Count(protocol, 1, size), Count(protocol, 0, size)), ([], [])
    try:
        for at, is_request, payload in packets(port):
            times[is_request].extend([at] * counts[is_request].take(payload))
    except KeyboardInterrupt:
        pass
    answers, requests = times
    begin = requests[0] + warm_up * 1e9 if requests else 0
    taken = sorted((answer - request) / 1000 for request, answer in zip(requests, answers) if request >= begin)
    if not taken or len(answers) != len(requests):
        print(f"{len(requests)} requests, {len(answers)} answers", file=sys.stderr)
        return 1
    print(f"{taken[len(taken) // 2]:.1f} {taken[len(taken) * 99 // 100]:.1f} {len(taken)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
