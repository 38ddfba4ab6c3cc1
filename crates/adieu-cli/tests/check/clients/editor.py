"""An editor made of pygls: opens a file, prints what the server says of it, and ends the session."""

import asyncio
import json
import sys

from lsprotocol import types
from pygls.lsp.client import LanguageClient


async def main(adieu, root):
    client = LanguageClient("editor", "1")
    published = asyncio.Queue()

    @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def publish(params):
        published.put_nowait(params)

    await client.start_io(adieu, "check", "--lsp", cwd=root)
    uri = f"file://{root}"
    capabilities = types.ClientCapabilities()
    started = await client.initialize_async(
        types.InitializeParams(capabilities=capabilities, root_uri=uri)
    )
    client.initialized(types.InitializedParams())
    name = f"{uri}/app.py"
    with open(f"{root}/app.py") as file:
        text = file.read()
    client.text_document_did_open(
        types.DidOpenTextDocumentParams(
            text_document=types.TextDocumentItem(uri=name, language_id="python", version=1, text=text)
        )
    )
    found = await published.get()
    place = found.diagnostics[-1].range
    actions = await client.text_document_code_action_async(
        types.CodeActionParams(
            text_document=types.TextDocumentIdentifier(uri=name),
            range=place,
            context=types.CodeActionContext(diagnostics=found.diagnostics),
        )
    )
    await client.shutdown_async(None)
    client.exit(None)
    server = client._server
    code = await server.wait()
    print(
        json.dumps(
            {
                "codes": [it.code for it in found.diagnostics],
                "ways": [len(it.related_information or []) for it in found.diagnostics],
                "links": [it.code_description is not None for it in found.diagnostics],
                "actions": [it.title for it in actions],
                "name": started.server_info.name if started.server_info else None,
                "exit": code,
            }
        )
    )


asyncio.run(asyncio.wait_for(main(*sys.argv[1:]), 60))
