"""Free ports of 127.0.0.1: ports.py COUNT prints this many."""
import random, socket, sys

taken = set()


def free_ports(count):
    """Ports below those that the kernel gives to connections, so that no connection takes one before its
    server does, or while it is down."""
    ports = []
    while len(ports) < count:
        port = random.randrange(10_000, 32_000)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in taken:
            taken.add(port)
            ports.append(port)
    return ports


if __name__ == "__main__":
    print(*free_ports(int(sys.argv[1])))
