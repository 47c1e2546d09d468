"""At a hospital: one more step of its agent's visit for each message that comes."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from tacit_bridge.tunnel import AtTheSite

app = ClientApp()


@cache
def _opened(folder: str) -> AtTheSite:
    return AtTheSite(folder)


@app.query()
def query(message: Message, context: Context) -> Message:
    """Take a step; the folder is this SuperNode's `--node-config 'tacit-site="..."'`."""
    here = _opened(str(Path(str(context.node_config["tacit-site"])).resolve()))
    told = here.take(dict(message.content["tacit"]))
    return Message(RecordDict({"tacit": ConfigRecord(told)}), reply_to=message)
