"""A request hangs, and nothing cancels a thread."""

import time


def app(environ, start_response):
    print("hangs", flush=True)
    time.sleep(3600)
