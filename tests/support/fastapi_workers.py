"""The example over FastAPI as its test starts it: with a model that can be kept waiting."""

import asyncio
import os
import sys
from pathlib import Path

from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk

from langchain_convmem.offline import OfflineChatModel

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import fastapi_app

FOR_EVER = "Count for ever."
COUNTED = ("One, ", "two, ", "three")


class WaitingModel(OfflineChatModel):
    """Counts to three when asked to count for ever, and then says nothing more."""

    async def _astream(self, messages, *args, **kwargs):
        if not messages[-1].text.endswith(FOR_EVER):
            async for chunk in super()._astream(messages, *args, **kwargs):
                yield chunk
            return
        for word in COUNTED:
            yield ChatGenerationChunk(message=AIMessageChunk(word))
        await asyncio.Event().wait()


fastapi_app.model = WaitingModel()
app = fastapi_app.app
app.get("/worker")(os.getpid)
