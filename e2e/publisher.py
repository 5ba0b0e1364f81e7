"""Publishes numbered messages over libzmq as vLLM's ZmqEventPublisher does, and replays them.

    python publisher.py COUNT [CONNECT_TO]

prints the ports of its PUB and ROUTER sockets, waits for a line on standard input, publishes, and ends at the next line. With CONNECT_TO
the PUB socket connects there instead of binding.
"""

import sys

import zmq

count = int(sys.argv[1])
context = zmq.Context()
pub = context.socket(zmq.PUB)
pub.setsockopt(zmq.SNDHWM, 100_000)
pub.setsockopt(zmq.HEARTBEAT_IVL, 100)
pub.setsockopt(zmq.HEARTBEAT_TIMEOUT, 2000)
if len(sys.argv) > 2:
    pub.connect(sys.argv[2])
    port = 0
else:
    port = pub.bind_to_random_port("tcp://127.0.0.1")
router = context.socket(zmq.ROUTER)
router.setsockopt(zmq.SNDHWM, 100_000)  # a ROUTER drops what is beyond it, 1,000 messages otherwise, when its peer is slow for a moment
replay = router.bind_to_random_port("tcp://127.0.0.1")
print(port, replay, flush=True)

log = []
poller = zmq.Poller()
poller.register(router, zmq.POLLIN)
poller.register(sys.stdin.fileno(), zmq.POLLIN)
while True:
    ready = dict(poller.poll())
    if router in ready:
        client, _, start = router.recv_multipart()
        for seq in range(int.from_bytes(start, "big"), len(log)):
            router.send_multipart([client, b"", b"kv", seq.to_bytes(8, "big"), log[seq]])
        router.send_multipart([client, b"", b"", b"\xff" * 8, b""])
    if sys.stdin.fileno() in ready:
        if not sys.stdin.readline() or log:
            break
        for seq in range(count):
            payload = bytes([seq % 251]) * (1 + seq * 37 % 5000)
            log.append(payload)
            pub.send_multipart([b"kv", seq.to_bytes(8, "big"), payload])
context.destroy(linger=0)
