"""A server's process, as the test of many servers starts it: a turn for each line that comes in.

    python tests/support/server_process.py ADDRESS

A line is `{"user", "thread", "text", "id"}`. The answer is what the model saw: `{"seen": [texts of
the thread], "recalled": text}`, or `{"error": its name and message}`. Turns run at once, each in a
thread of its own, and are answered in the order in which they end, with their `id`.
"""

from __future__ import annotations

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda

from langchain_convmem import ConversationMemory
from langchain_convmem.testing import HashEmbeddings
from langchain_convmem.views.context import is_framing

_PRINTING = threading.Lock()


class Server:
    """One memory and one chain, as a server has them."""

    def __init__(self, memory):
        self._seen = threading.local()
        self._chain = memory.wrap(RunnableLambda(self._answer), recall_tokens=300, profile_tokens=0)

    def _answer(self, given):
        messages = given["messages"] if isinstance(given, dict) else given
        shown = [one for one in messages if not is_framing(one)]
        self._seen.texts = [str(one.text) for one in shown]
        return AIMessage("I see.")

    def answer(self, line):
        """Run a turn, and print what its model saw."""
        asked = json.loads(line)
        config = {"configurable": {"user_id": asked["user"], "thread_id": asked["thread"]}}
        try:
            self._chain.invoke(HumanMessage(asked["text"], id=asked["id"]), config)
            *before, question = self._seen.texts
            found = {"seen": before, "question": question}
        except Exception as error:  # noqa: BLE001 - the test shows it
            found = {"error": f"{type(error).__name__}: {error}"}
        with _PRINTING:
            print(json.dumps({"id": asked["id"], **found}), flush=True)


def main(address):
    """Serve until there are no more lines."""
    with ConversationMemory.open(address, embeddings=HashEmbeddings()) as memory:
        server = Server(memory)
        with ThreadPoolExecutor(8) as turns:
            print("ready", flush=True)
            for line in sys.stdin:
                turns.submit(server.answer, line)


if __name__ == "__main__":
    main(sys.argv[1])
