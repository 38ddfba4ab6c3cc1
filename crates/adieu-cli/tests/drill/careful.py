"""A server that stops with care, and does one thing wrong if an argument says so: careful.py PORT [FAULT [LIVE_PORT]]."""

import os
import signal
import socket
import sys
import threading
import time
from urllib.parse import parse_qsl, urlsplit

PORT = int(sys.argv[1])
FAULT = sys.argv[2] if len(sys.argv) > 2 else ""
STARTED = time.monotonic()
LINGER = 0.2
LARGE = b"0123456789abcdef" * (1 << 19)
# What is said at the root after the signal.
ROOT_AT_STOP = {
    "root-500": ("500 Oops", b"no"),
    "root-503": ("503 Busy", b"no"),
    "root-foreign": ("200 OK", b"another user's\n"),
}

stopping = threading.Event()
lock = threading.Lock()
busy = 0
# How often the root was asked for: by every client of a load, and a few times before the first check.
asked = 0
CROWD = 20
slow_now = 0
slow_at_stop = 0


def read_head(peer, buffer):
    """The next head and what follows it, or nothing if there is none to come."""
    peer.settimeout(0.02)
    since = None
    while b"\r\n\r\n" not in buffer:
        if stopping.is_set():
            since = since or time.monotonic()
            if time.monotonic() - since > LINGER:
                return None
        try:
            piece = peer.recv(65536)
        except TimeoutError:
            continue
        if not piece:
            return None
        buffer += piece
    peer.settimeout(30)
    return buffer.split(b"\r\n\r\n", 1)


def receive(peer, body, length):
    """How many bytes of a body came."""
    if FAULT == "upload-cut":
        peer.settimeout(0.02)
    while len(body) < length:
        if FAULT == "upload-cut" and stopping.is_set():
            break
        try:
            piece = peer.recv(65536)
        except TimeoutError:
            continue
        if not piece:
            break
        body += piece
    return len(body[:length]), body[length:]


def slow(query):
    """Status and body of the path that answers late."""
    global slow_now
    with lock:
        slow_now += 1
    try:
        return slept(query)
    finally:
        with lock:
            slow_now -= 1


def slept(query):
    seconds = float(query.get("ms", 100)) / 1000
    if FAULT == "slow-at-once":
        seconds = 0
    until = time.monotonic() + seconds
    gives_up = FAULT in ("slow-503", "slow-404")
    while (left := until - time.monotonic()) > 0:
        if gives_up and stopping.is_set():
            return ("503 Busy", b"no") if FAULT == "slow-503" else ("404 Gone", b"%d" % time.time_ns())
        time.sleep(min(left, 0.02))
    if FAULT.startswith("slow-varies"):
        body = b"%020d" % time.time_ns() + b"y" * 100
        short = FAULT == "slow-varies-short" and stopping.is_set()
        return "200 OK", body[:50] if short else body
    if FAULT == "clock":
        return "200 OK", b'{"uptime_s": %d}' % (time.monotonic() - STARTED)
    return "200 OK", b"slept\n"


def answer(path, query, got):
    global asked
    if path == "/":
        with lock:
            asked += 1
    if path == "/" and stopping.is_set() and FAULT in ROOT_AT_STOP:
        return ROOT_AT_STOP[FAULT]
    if path == "/":
        time.sleep(3.2 if FAULT == "root-slow" else 0)
        return "200 OK", b"hello\n"
    if path == "/slow":
        return slow(query)
    if path == "/large":
        return "200 OK", LARGE
    if path == "/upload":
        clock = b", up %d s" % (time.monotonic() - STARTED) if FAULT == "clock" else b""
        return "200 OK", b"received %d%s\n" % (got, clock)
    if path == "/readyz":
        ready = not stopping.is_set() or FAULT == "always-ready"
        return ("200 OK" if ready else "503 Stopping"), b""
    return "404 Not Found", b"nothing here\n"


def send_large(peer, head, body):
    """With wrong bytes from the signal on, if that is what we do wrong."""
    peer.sendall(head + body[:65536])
    for at in range(65536, len(body), 65536):
        piece = body[at : at + 65536]
        peer.sendall(b"?" * len(piece) if stopping.is_set() else piece)


def talk(peer):
    buffer = b""
    while (front := read_head(peer, buffer)) is not None:
        head, buffer = front
        lines = head.decode().split("\r\n")
        method, target, _ = lines[0].split(" ", 2)
        fields = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines[1:])}
        got, buffer = receive(peer, buffer, int(fields.get("content-length", 0)))
        url = urlsplit(target)
        status, body = answer(url.path, dict(parse_qsl(url.query)), got)
        # What was sent together is answered together.
        last = stopping.is_set() and b"\r\n\r\n" not in buffer
        close = last or fields.get("connection") == "close" or FAULT == "never-keeps"
        said = f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n" + ("connection: close\r\n" if close else "") + "\r\n"
        if FAULT == "large-garbled" and url.path == "/large":
            send_large(peer, said.encode(), body)
        else:
            peer.sendall(said.encode() + (b"" if method == "HEAD" else body))
        if FAULT == "live-refused" and url.path == "/slow" and stopping.is_set():
            os._exit(0)
        if close:
            peer.shutdown(socket.SHUT_WR)
            peer.settimeout(1)
            while peer.recv(65536):
                pass
            return


def serve(peer):
    global busy
    try:
        with peer:
            talk(peer)
    except (OSError, ValueError):
        pass
    finally:
        with lock:
            busy -= 1


def be_alive(door):
    """Answers liveness probes on a port of their own."""
    door.settimeout(0.02)
    while not (stopping.is_set() and FAULT == "live-refused"):
        try:
            peer, _ = door.accept()
        except TimeoutError:
            continue
        with peer:
            peer.recv(65536)
            if not (stopping.is_set() and FAULT == "live-closed"):
                peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
    door.close()


def leave_daemon():
    """An orphan in a session of its own, with nothing in its environment."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            listener.close()
            os.closerange(1, 3)
            os.execve("/bin/sleep", ["sleep", "777"], {})
        os._exit(0)
    os.wait()


listener = socket.create_server(("127.0.0.1", PORT), backlog=512)
listener.settimeout(0.02)
if FAULT == "daemon":
    leave_daemon()
if len(sys.argv) > 3:
    door = socket.create_server(("127.0.0.1", int(sys.argv[3])))
    threading.Thread(target=be_alive, args=(door,), daemon=True).start()
signal.signal(signal.SIGTERM, signal.SIG_IGN if FAULT == "deaf" else lambda *_: stopping.set())
print("listening", flush=True)
closes_at = None
while closes_at is None or time.monotonic() < closes_at:
    if stopping.is_set() and closes_at is None:
        closes_at = time.monotonic() + 0.1
        slow_at_stop = slow_now
    try:
        client, _ = listener.accept()
    except TimeoutError:
        continue
    with lock:
        busy += 1
    threading.Thread(target=serve, args=(client,), daemon=True).start()
listener.close()
deadline = time.monotonic() + 5
while busy and time.monotonic() < deadline:
    time.sleep(0.01)
print("bye", flush=True)
# What a client was doing at the instant of the signal is left to chance; that there was a load is not.
with_clients = asked >= CROWD or slow_at_stop
if FAULT == "hang-with-clients" and with_clients:
    time.sleep(1000)
if FAULT == "abort-with-clients" and with_clients:
    os.abort()
os._exit(3 if FAULT == "exit-3-with-clients" and with_clients else 0)
