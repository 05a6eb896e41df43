"""A process killed while its model answers leaves the question."""

import signal

from forked_processes import ForkedProcess

from langchain_convmem import ConversationMemory
from langchain_convmem.offline import OfflineChatModel

KILLED = """
import os, signal, sys
from langchain_core.runnables import RunnableLambda
from langchain_convmem import ConversationMemory

def killed(messages):
    os.kill(os.getpid(), signal.SIGKILL)

memory = ConversationMemory.open(sys.argv[1])
talk = memory.conversation(RunnableLambda(killed), thread_id="t", user_id="ana", recall=False)
talk.send_message(sys.argv[2])
"""


def test_what_is_asked_of_a_conversation_outlives_a_kill_before_the_reply(tmp_path):
    path = tmp_path / "memory.db"
    for text in ("Where did I park?", "Hello?"):
        with ForkedProcess(KILLED, path, text) as child:
            child.ends()
        assert child.returncode == -signal.SIGKILL, "it was killed, and did not fail"
    with ConversationMemory.open(path) as memory:
        talk = memory.conversation(OfflineChatModel(), thread_id="t", user_id="ana", recall=False)
        assert [message.text for message in talk.history] == ["Where did I park?", "Hello?"]
        talk.send_message("Anybody there?")
        assert [message.type for message in talk.history] == ["human"] * 3 + ["ai"]
