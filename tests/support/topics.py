"""An embedder that knows three topics, and a memory whose recall goes by them alone."""

from dataclasses import replace

from langchain_core.embeddings import Embeddings
from langchain_core.messages import HumanMessage

from langchain_convmem import ConversationMemory, RecallSettings

TOPICS = ("boat", "dog", "soup")
BOAT = "My boat has a red hull."
DOG = "My dog is called Rex."


class TopicEmbeddings(Embeddings):
    """A text's vector says which of the topics it names."""

    fingerprint = "topics"

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text):
        return [float(text.lower().count(topic)) for topic in TOPICS]


def memory_with_a_buffer():
    """Return a memory in which Ana spoke of a boat and of a dog, and finds what she asks for."""
    return memory_of_topics(buffer_size=10)


def memory_of_topics(*, buffer_size=0):
    """Return such a memory, by default one that shows only what was just found."""
    settings = replace(RecallSettings.spec(), window=0, buffer_size=buffer_size)
    memory = ConversationMemory.open(
        ":memory:", embeddings=TopicEmbeddings(), settings=settings, profile_tokens=0
    )
    for thread_id, text in (("one", BOAT), ("two", DOG)):
        memory.add_messages([HumanMessage(text)], user_id="ana", thread_id=thread_id)
    memory.refresh(user_id="ana")
    return memory
