"""At the coordinator: ask every node, answer what they ask, until the studies have ended."""

from __future__ import annotations

import time
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.serverapp import Grid, ServerApp

from tacit_bridge.tunnel import AtTheCoordinator, Letter
from tacit_federation import Coordinator

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Carry letters; run-config: tacit-coordinator, and tacit-seconds for how long at the most."""
    settings = context.run_config
    place = Coordinator(Path(str(settings["tacit-coordinator"])))
    carry(grid, place, float(settings.get("tacit-seconds", 3600.0)))
    place.close()


def carry(grid: Grid, place: Coordinator, seconds: float, pause: float = 1.0) -> None:
    """Carry letters until no study is open any more; releasing stays the officer's to do."""
    desk, answers = AtTheCoordinator(place), {}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        place.tick()
        letters = {node: desk.next_letter(node, answers.get(node)) for node in grid.get_node_ids()}
        sent = [_message(node, letter) for node, letter in letters.items()]
        answers = {}
        for reply in grid.send_and_receive(sent, timeout=60):
            if reply.has_content():  # a node that fails is asked again
                node = reply.metadata.src_node_id
                answers[node] = desk.take(node, dict(reply.content["tacit"]))
        if any(answers.values()):
            continue  # somebody waits for an answer
        if all(row["state"] in ("released", "void") for row in place.studies()):
            return
        time.sleep(pause)


def _message(node: int, letter: Letter) -> Message:
    return Message(RecordDict({"tacit": ConfigRecord(letter)}), node, MessageType.QUERY)
