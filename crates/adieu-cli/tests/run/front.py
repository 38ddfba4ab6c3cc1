"""A server of HTTP/1.1 without a framework, for the tests of `--front`: `front.py WHERE [late] [polite]`.

WHERE is a port or the path of a Unix socket. At SIGTERM it is gone at once, as the most careless of servers is, unless it is polite.
"""
import asyncio, os, signal, sys

where, manners = sys.argv[1], sys.argv[2:]
released = asyncio.Event()


def say(*words):
    print(*words, flush=True)


async def read_head(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin1").split("\r\n")
    fields = [line.split(": ", 1) for line in lines if line]
    return first.split(" "), [(name.lower(), value) for name, value in fields], head


async def pieces(reader, fields):
    """The body, piece by piece as it comes; the last piece is the trailers if it is chunked."""
    if fields.get("transfer-encoding") == "chunked":
        while size := int(await reader.readline(), 16):
            yield await reader.readexactly(size)
            await reader.readline()
        trailers = b""
        while (line := await reader.readline()) != b"\r\n":
            trailers += line
        yield trailers
    elif length := int(fields.get("content-length", 0)):
        yield await reader.readexactly(length)


def answer(writer, body, status="200 OK", more=""):
    body = body.encode() if isinstance(body, str) else body
    writer.write(f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n{more}\r\n".encode() + body)


def begin_chunked(writer, more=""):
    writer.write(f"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n{more}\r\n".encode())


def chunk(writer, data):
    writer.write(b"%x\r\n%s\r\n" % (len(data), data))


async def respond(reader, writer):
    (method, path, _), fields, head = await read_head(reader)
    names, path = dict(fields), path.split("?")[0]
    if path == "/echo":
        begin_chunked(writer)
        async for piece in pieces(reader, names):
            if piece:
                chunk(writer, piece)
        writer.write(b"0\r\n\r\n")
    elif path == "/trailers":
        async for piece in pieces(reader, names):
            last = piece
        begin_chunked(writer, "trailer: x-sum\r\n")
        chunk(writer, last or b"none")
        writer.write(b"0\r\nx-sum: 42\r\n\r\n")
    elif path == "/asks":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        answer(writer, b"".join([piece async for piece in pieces(reader, names)]))
    elif path == "/refuses":
        answer(writer, "too large", "413 Content Too Large", "connection: close\r\n")
        return False
    elif path == "/ws":
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")
        while data := await reader.read(4096):
            writer.write(b"closes" if data == b"close" else data)
            if data == b"close":
                break
        say("tunnel ended")
        return False
    elif path == "/switches":
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")
        return False
    elif path == "/events":
        begin_chunked(writer, "content-type: text/event-stream\r\n")
        chunk(writer, b"data: 1\n\n")
        say("streams")
        await asyncio.sleep(3600)
    elif path == "/hold":
        say("held")
        await released.wait()
        answer(writer, f"pid {os.getpid()}")
    elif path == "/nonsense":
        writer.write(b"220 this is not HTTP\r\n\r\n")
        return False
    elif path == "/vanishes":
        body = b"".join([piece async for piece in pieces(reader, names)])
        say("received", method, body.decode())
        return False
    elif path == "/cuts":
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
        return False
    elif path == "/closes":
        answer(writer, "ok")
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        say("closed")
        return False
    elif path == "/head":
        answer(writer, head)
    else:
        async for _ in pieces(reader, names):
            pass
        answer(writer, f"pid {os.getpid()}")
    await writer.drain()
    return True


async def serve(reader, writer):
    try:
        while await respond(reader, writer):
            pass
        await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    writer.close()


async def main():
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, released.set)
    end = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, end.set if "polite" in manners else lambda: os._exit(0))
    say("pid", os.getpid())
    if "late" in manners:
        await released.wait()
    if where.isdigit():
        server = await asyncio.start_server(serve, "127.0.0.1", int(where), backlog=1024)
    else:
        server = await asyncio.start_unix_server(serve, where, backlog=1024)
    say("listens", where)
    await end.wait()
    server.close()


asyncio.run(main())
