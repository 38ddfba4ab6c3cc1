"""Everything hangs: the request also after it was cancelled, the hooks until their limits."""

import asyncio
import sys
from contextlib import suppress

from aiohttp import web


async def hang(request):
    print("hangs", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.Event().wait()


async def flush(app):
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), 2)


async def database(app):
    yield
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), 3)


app = web.Application()
app.router.add_get("/slow", hang)
app.on_shutdown.append(flush)
app.cleanup_ctx.append(database)
web.run_app(app, path=sys.argv[1], shutdown_timeout=4)
