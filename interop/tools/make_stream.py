"""Makes a JetStream stream, as its own clients ask for it: make_stream.py HOST:PORT NAME.

Status 1 unless the server confirms it."""
import json
import socket
import sys


def main():
    address, name = sys.argv[1:]
    host, port = address.rsplit(":", 1)
    wanted = json.dumps({"name": name, "subjects": ["stranger." + name], "storage": "memory"}).encode()
    lines = b"CONNECT {\"verbose\":false}\r\nSUB answer 1\r\nPUB $JS.API.STREAM.CREATE.%s answer %d\r\n%s\r\n" % (name.encode(), len(wanted), wanted)
    with socket.create_connection((host, int(port)), 10) as server:
        server.sendall(lines)
        for line in server.makefile("rb"):
            if line.startswith(b"{"):
                return 0 if "created" in json.loads(line) else 1
    return 1


if __name__ == "__main__":
    sys.exit(main())
