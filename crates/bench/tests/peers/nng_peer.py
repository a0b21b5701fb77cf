"""The other side of `--system nng`, with nng's own library: serves what its argument names until it is killed.

request: a REP socket that answers with what it got. push-pull, pub-sub: forwards what it receives to the address
that is its second argument. The first line of output is the port that it listens on.
"""

import sys

import pynng


def main():
    pattern = sys.argv[1]
    kind = {"request": pynng.Rep0, "push-pull": pynng.Pull0, "pub-sub": pynng.Sub0}[pattern]
    options = {"topics": ""} if pattern == "pub-sub" else {}
    with kind(listen="tcp://127.0.0.1:0", **options) as receiving:
        receiving.recv_max_size = 0
        receiving.recv_buffer_size = 8192
        out = receiving
        if pattern != "request":
            out = pynng.Push0() if pattern == "push-pull" else pynng.Pub0()
            out.reconnect_time_min = out.reconnect_time_max = 10
            out.send_buffer_size = 8192
            out.dial("tcp://" + sys.argv[2], block=False)
        print(str(receiving.listeners[0].local_address).rpartition(":")[2], flush=True)
        while True:
            out.send(receiving.recv())


main()
