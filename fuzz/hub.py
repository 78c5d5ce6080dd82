"""Who joins, leaves, comes back and does not read: nobody misses a change without being told, and nothing grows."""

from __future__ import annotations

from queue import Empty

from fuzz.pieces import Choices
from touchstone.live.hub import BACKLOG, Change, Hub, Listener


class Client:
    """A page that keeps count of what it knows."""

    def __init__(self, hub: Hub, last: str | None) -> None:
        self.listener: Listener
        self.listener, missed = hub.join(last)
        self.knows = last
        for change in missed:
            self.take(change)

    def take(self, change: Change) -> None:
        self.knows = change.id

    def read(self) -> bool:
        """One change; False where there is none."""
        try:
            change = self.listener.get(timeout=0.0001)
        except Empty:
            return False
        if change is not None:
            self.take(change)
        return change is not None


def check(data: bytes) -> None:
    choices = Choices(data[:400])
    hub = Hub("s")
    clients: list[Client] = []
    while choices.left:
        match choices.number(6):
            case 0:
                hub.publish([f"p{choices.number(4)}"])
            case 1 if len(clients) < 8:
                clients.append(Client(hub, None))
                clients[-1].knows = hub.id
            case 2 if len(clients) < 8:
                last = choices.take(choices.number(12)).decode("latin-1")
                client = Client(hub, last)
                assert client.knows == hub.id or last == hub.id, (client.knows, last)
                clients.append(client)
            case 3 if clients:
                hub.leave(clients.pop(choices.number(len(clients))).listener)
            case 4 if clients:
                clients[choices.number(len(clients))].read()
            case 5:
                for _ in range(choices.number(2 * BACKLOG)):
                    hub.publish(["many"])
            case _:
                pass
        assert hub.listeners <= len(clients)
    for client in clients:
        while client.read():
            pass
        assert client.listener.lost or client.knows == hub.id, (client.knows, hub.id)
    hub.close()
    assert hub.listeners == 0
