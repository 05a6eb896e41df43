"""A chat server: FastAPI, several workers, one memory for each process over one log.

    pip install langchain-convmem fastapi uvicorn itsdangerous
    SESSION_SECRET=$(openssl rand -hex 32) uvicorn --app-dir examples fastapi_app:app --workers 2

`CONVMEM_LOG` names the log: a file that all workers of a machine share (`memory.db`), or
`postgresql://...` where there are several machines. The page docs/how_to/deploy.md walks
through it.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import StreamingResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from langchain_core.runnables import Runnable
from pydantic import BaseModel, StringConstraints
from starlette.middleware.sessions import SessionMiddleware

from langchain_convmem import ConversationMemory
from langchain_convmem.offline import OfflineChatModel

model: BaseChatModel = OfflineChatModel()  # your model goes here


# -- one memory for each process ------------------------------------------------------------------


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open the memory in each worker, never in the process that starts the workers."""
    async with ConversationMemory.open(os.environ.get("CONVMEM_LOG", "memory.db")) as memory:
        app.state.memory = memory
        app.state.chain = memory.wrap(model)
        yield


app = FastAPI(lifespan=lifespan)
# Every worker must know the same secret, so it comes from outside.
app.add_middleware(SessionMiddleware, secret_key=os.environ["SESSION_SECRET"], same_site="strict")


# -- who is speaking, and where -------------------------------------------------------------------


def current_user(request: Request) -> str:
    """Return the signed-in user. User ids anywhere else in the request are ignored."""
    user_id = request.session.get("user_id")
    if user_id is None:
        raise HTTPException(401, "sign in first")
    return str(user_id)


def get_memory(request: Request) -> ConversationMemory:
    """Return the memory of this process."""
    memory: ConversationMemory = request.app.state.memory
    return memory


def get_chain(request: Request) -> Runnable[Any, Any]:
    """Return the chain of this process; it serves all users and threads."""
    chain: Runnable[Any, Any] = request.app.state.chain
    return chain


User = Annotated[str, Depends(current_user)]
Memory = Annotated[ConversationMemory, Depends(get_memory)]
Chain = Annotated[Runnable[Any, Any], Depends(get_chain)]
Id = Annotated[str, StringConstraints(pattern=r"^[\w.:-]{1,128}$")]
Text = Annotated[str, StringConstraints(pattern=r"\S", max_length=20_000)]


class Said(BaseModel):
    """A user's message. The browser chooses the id, so a request sent twice is one turn."""

    id: Id
    text: Text


class Line(BaseModel):
    """A message of a chat. A browser may not send system messages."""

    id: Id
    role: Literal["user", "assistant"]
    content: Text


class Chat(BaseModel):
    """A whole chat, as many chat interfaces send it each time."""

    messages: list[Line]


def config_for(user_id: str, thread_id: str) -> dict[str, Any]:
    """Return the config for a call of the chain."""
    return {"configurable": {"user_id": user_id, "thread_id": thread_id}}


# -- sign in --------------------------------------------------------------------------------------


@app.post("/login", status_code=204)
def login(request: Request, name: Id) -> None:
    """Stand in for your own sign-in, which puts the user into the session."""
    request.session["user_id"] = name


# -- turns ----------------------------------------------------------------------------------------


@app.post("/threads/{thread_id}/messages")
async def send(thread_id: Id, said: Said, user_id: User, chain: Chain) -> dict[str, str]:
    """Answer in one piece."""
    question = HumanMessage(said.text, id=said.id)
    reply = await chain.ainvoke(question, config_for(user_id, thread_id))
    return {"id": reply.id, "text": reply.text}


@app.post("/threads/{thread_id}/messages/sync")
def send_sync(thread_id: Id, said: Said, user_id: User, chain: Chain) -> dict[str, str]:
    """Answer in one piece, for models and tools without an asynchronous form."""
    question = HumanMessage(said.text, id=said.id)
    reply = chain.invoke(question, config_for(user_id, thread_id))
    return {"id": reply.id, "text": reply.text}


@app.post("/threads/{thread_id}/stream")
async def stream(thread_id: Id, said: Said, user_id: User, chain: Chain) -> StreamingResponse:
    """Answer piece by piece."""
    question = HumanMessage(said.text, id=said.id)
    return event_stream(chain, question, config_for(user_id, thread_id))


@app.post("/threads/{thread_id}/chat")
async def chat(thread_id: Id, chat: Chat, user_id: User, chain: Chain) -> StreamingResponse:
    """Answer a browser that sends the whole chat; only new messages are stored."""
    messages = [line.model_dump() for line in chat.messages]
    return event_stream(chain, {"messages": messages}, config_for(user_id, thread_id))


def event_stream(chain: Runnable[Any, Any], said: Any, config: Any) -> StreamingResponse:
    """Return a response of server-sent events."""
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}  # proxies pass it on at once
    events = turn_events(chain, said, config)
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)


async def turn_events(chain: Runnable[Any, Any], said: Any, config: Any) -> AsyncIterator[str]:
    """Yield a `text` event for each piece of the answer, then `done` with its id.

    When the browser leaves, this is cancelled or closed, and `aclosing` ends the turn then and
    there: what was said so far is stored, marked `interrupted`.
    """
    reply_id = None
    async with aclosing(chain.astream(said, config)) as chunks:
        async for chunk in chunks:
            reply_id = chunk.id or reply_id
            if chunk.text:
                yield event("text", {"text": chunk.text})
    yield event("done", {"id": reply_id})


def event(name: str, data: dict[str, Any]) -> str:
    """Return one server-sent event."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


# -- what was said --------------------------------------------------------------------------------


@app.get("/threads")
def threads(user_id: User, memory: Memory) -> list[str]:
    """Return the user's threads, latest first."""
    return [thread.key.thread_id for thread in memory.threads(user_id)]


@app.get("/threads/{thread_id}")
def thread(thread_id: Id, user_id: User, memory: Memory) -> list[dict[str, Any]]:
    """Return what a browser shows of a thread after a reload."""
    return [
        {
            "id": entry.message_id,
            "role": turn.role,
            "content": "\n".join(entry.contents),
            "interrupted": "interrupted" in entry.metadata.attributes,
        }
        for turn in memory.history(thread_id, user_id=user_id).turns
        for entry in turn.entries
        if turn.role in ("user", "assistant")
    ]


@app.delete("/threads/{thread_id}")
def forget(thread_id: Id, user_id: User, memory: Memory) -> dict[str, int]:
    """Erase a thread for good."""
    return {"entries": memory.forget(thread_id=thread_id, user_id=user_id).entries}


# -- what is known of the user --------------------------------------------------------------------


@app.get("/me")
def profile(user_id: User, memory: Memory) -> list[str]:
    """Return what the user has said about themselves, as far as it still holds."""
    return [item.text for item in memory.profile(user_id).current]


@app.delete("/me")
def forget_me(user_id: User, memory: Memory) -> dict[str, int]:
    """Permanently erase everything the user said, in every thread."""
    return {"entries": memory.forget(user_id=user_id).entries}
