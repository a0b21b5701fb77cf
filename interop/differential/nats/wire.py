"""The frames that a server sends, and WebSocket around them."""
import base64, os, struct

CRLF = b"\r\n"


def frames(received):
    """Takes whole frames off the front of a bytearray. Bytes that are not a NATS frame come as ("?", rest)."""
    found = []
    while received:
        end = received.find(CRLF)
        if end < 0:
            break
        line = bytes(received[:end])
        verb = line.split(b" ", 1)[0]
        if verb not in (b"MSG", b"HMSG"):
            if not line.startswith((b"INFO ", b"+OK", b"-ERR ", b"PING", b"PONG")):
                found.append(("?", bytes(received)))
                received.clear()
                break
            found.append((verb.decode(), line))
            del received[: end + 2]
            continue
        total = int(line.rsplit(b" ", 1)[1])
        if len(received) < end + 2 + total + 2:
            break
        found.append((verb.decode(), line + CRLF + bytes(received[end + 2 : end + 2 + total])))
        del received[: end + 2 + total + 2]
    return found


def upgrade(path, lines=()):
    key = base64.b64encode(os.urandom(16)).decode()
    head = [f"GET {path} HTTP/1.1", "Host: localhost", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}", *lines]
    return ("\r\n".join(head) + "\r\n\r\n").encode()


def masked(payload, opcode=2, final=True):
    mask = os.urandom(4)
    head = bytes([opcode | (0x80 if final else 0)])
    if len(payload) < 126:
        head += bytes([0x80 | len(payload)])
    elif len(payload) < 65536:
        head += bytes([0xFE]) + struct.pack(">H", len(payload))
    else:
        head += bytes([0xFF]) + struct.pack(">Q", len(payload))
    return head + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))


def unmasked(received):
    """Takes whole WebSocket frames off the front: (opcode, payload)."""
    found = []
    while len(received) >= 2:
        length, at = received[1] & 0x7F, 2
        if length == 126:
            length, at = (struct.unpack(">H", received[2:4])[0] if len(received) >= 4 else 1 << 62), 4
        elif length == 127:
            length, at = (struct.unpack(">Q", received[2:10])[0] if len(received) >= 10 else 1 << 62), 10
        if len(received) < at + length:
            break
        found.append((received[0] & 0x0F, bytes(received[at : at + length])))
        del received[: at + length]
    return found
