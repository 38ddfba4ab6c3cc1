"""Everything hangs: the request until it is cancelled, the clean-up until its limit."""

import asyncio
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI


@asynccontextmanager
async def lifespan(app):
    yield
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(flush(), 4)


async def flush():
    await asyncio.Event().wait()


app = FastAPI(lifespan=lifespan)


@app.get("/slow")
async def hang():
    print("hangs", flush=True)
    await asyncio.Event().wait()
