"""The other side of `--system zeromq`, with ZeroMQ's own library: serves what its argument names until it is killed.

request: a REP socket that answers with what it got. push-pull, pub-sub: forwards what it receives to the address
that is its second argument. The first line of output is the port that it listens on.
"""

import sys

import zmq


def main():
    pattern = sys.argv[1]
    context = zmq.Context()
    kind = {"request": zmq.REP, "push-pull": zmq.PULL, "pub-sub": zmq.XSUB}[pattern]
    receiving = context.socket(kind)
    receiving.rcvhwm = 0
    port = receiving.bind_to_random_port("tcp://127.0.0.1")
    out = receiving
    if pattern != "request":
        out = context.socket(zmq.PUSH if pattern == "push-pull" else zmq.XPUB)
        out.sndhwm = 0
        out.reconnect_ivl = 10
        out.connect("tcp://" + sys.argv[2])
    print(port, flush=True)
    if pattern == "request":
        while True:
            receiving.send(receiving.recv())
    # Forwards subscriptions to the publisher, too.
    zmq.proxy(receiving, out)


main()
