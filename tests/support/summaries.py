"""Summaries as they were written, and who writes them in tests."""

import re

from langchain_convmem.logs import InMemoryLog
from langchain_convmem.views.messages import NOTED_TEXT

_FENCE = re.compile(r"<summary>\n[^\n]+\n\n(.*?)\n</summary>", re.DOTALL)


def bare(text):
    """Return a text with the summary in it as it was written, without its fence and notice."""
    return _FENCE.sub(r"\1", text)


def bare_texts(messages):
    """Return the texts of messages, the summary as it was written and without the answer to it."""
    return [bare(message.text) for message in messages if message.text != NOTED_TEXT]


def everything(request):
    """Return all that a request holds."""
    return f"{request.previous}\n{request.transcript}"


class ScriptedSummarizer:
    """Gives its replies in order, the last one for ever, and keeps what it was asked.

    A reply is text, an exception to raise, or a function of the request that returns one of these.
    """

    name = "scripted"

    def __init__(self, *replies):
        self.replies = list(replies) or [everything]
        self.requests = []

    @property
    def asked(self):
        """Return all transcripts, in order."""
        return "".join(request.transcript for request in self.requests)

    def summarize(self, request):
        self.requests.append(request)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if callable(reply):
            reply = reply(request)
        if isinstance(reply, BaseException):
            raise reply
        return reply

    async def asummarize(self, request):
        return self.summarize(request)


class ForgetsMeanwhile(InMemoryLog):
    """Forgets all of a role that a thread holds as soon as a summary is written."""

    def __init__(self, role):
        super().__init__()
        self._role = role

    def append(self, key, drafts, **options):
        old = [entry.id for entry in self.entries(key) if entry.role == self._role]
        added = super().append(key, drafts, **options)
        if old and added[0].role == "summary":
            self.forget(key, old)
        return added
