"""The web chat: what each address answers. Several users; nothing that blocks the loop."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from langchain_core.messages import HumanMessage
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from langchain_convmem.background import hop
from langchain_convmem.causes import describe_value
from langchain_convmem.errors import ConfigError, ConvMemError
from langchain_convmem.ids import make_ulid
from langchain_convmem.profile.statements import KINDS
from langchain_convmem.records import Entry, Owner
from langchain_convmem.transfer import export_rows
from langchain_convmem.turns.memory import TurnOptions, get_turn_memory
from langchain_convmem.web.access import COOKIE, Access, Guard, set_session
from langchain_convmem.web.display import list_pictures
from langchain_convmem.web.live import LiveReplies, LiveReply
from langchain_convmem.web.pages import STATIC, render_page
from langchain_convmem.web.report import stream_report
from langchain_convmem.web.requests import (
    MOST_WINDOW,
    find_place,
    get_theme,
    read_form,
    read_number,
    read_placed_form,
    read_said,
    read_window,
)
from langchain_convmem.web.threads import (
    LISTED,
    ThreadPlace,
    ThreadReader,
    ThreadRow,
    read_form_settings,
)
from langchain_convmem.web.uploads import ImportJobs

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import Runnable

    from langchain_convmem.memory import ConversationMemory

_EVENTS = {"X-Accel-Buffering": "no", "Cache-Control": "no-store"}


def build_app(
    memory: ConversationMemory,
    models: Mapping[str, BaseChatModel | Runnable[Any, Any]],
    *,
    access: Access | None = None,
) -> Starlette:
    """Return the web chat as an ASGI application.

    Args:
        memory: What it shows and adds to; stays the caller's to close, after the application.
        models: What answers, by the names that pages show: the first, or what a thread chooses.
        access: Who may use it; None is everybody on this machine.
    """
    chat = WebChat(memory, models, access or Access())

    @asynccontextmanager
    async def run(app: Starlette) -> AsyncIterator[None]:
        app.state.chat = chat
        yield
        await chat.aclose()

    app = Starlette(
        routes=chat.list_routes(),
        middleware=[Middleware(Guard, access=chat.access)],
        exception_handlers={ConvMemError: _show_error, 404: _show_missing},
        lifespan=run,
    )
    app.state.chat = chat
    return app


async def _show_error(request: Request, error: Exception) -> Response:
    """Answer what could not be done with a sentence, as the page can show it."""
    status = 400 if isinstance(error, ConfigError) else 500
    if request.headers.get("hx-request") or request.method != "GET":
        return Response(str(error), status, media_type="text/plain")
    return HTMLResponse(
        render_page("error.html", message=str(error), theme=get_theme(request)), status
    )


async def _show_missing(request: Request, error: Exception) -> Response:
    del error
    message = "This page does not exist."
    return HTMLResponse(render_page("error.html", message=message, theme=get_theme(request)), 404)


class Entrance:
    """The pages before the chat: who may come in, and whose memory to show."""

    def __init__(self, reader: ThreadReader, access: Access) -> None:
        """Lead to the chats of a memory.

        Args:
            reader: Reads who has one.
            access: Who may come in.
        """
        self._reader = reader
        self._access = access

    async def open_first(self, request: Request) -> Response:
        """Lead to the chat of the only user, or to the list of users."""
        fixed = request.scope.get("fixed_user")
        users = await self._reader.list_users() if fixed is None else [fixed]
        if len(users) == 1:
            return RedirectResponse(ThreadPlace(users[0]).build_url("/chat"), 303)
        return RedirectResponse("/users", 303)

    async def show_users(self, request: Request) -> Response:
        """Show the users that there are, and a field for a new one."""
        fixed = request.scope.get("fixed_user")
        if fixed is not None:
            return RedirectResponse(ThreadPlace(fixed).build_url("/chat"), 303)
        users = [ThreadPlace(user) for user in await self._reader.list_users()]
        page = render_page("users.html", users=users, theme=get_theme(request))
        return HTMLResponse(page)

    async def show_login(self, request: Request) -> Response:
        """Ask for a token."""
        if not self._access.has_tokens:
            return RedirectResponse("/", 303)
        page = render_page("login.html", is_wrong=False, theme=get_theme(request))
        return HTMLResponse(page)

    async def sign_in(self, request: Request) -> Response:
        """Sign in who knows a token."""
        form = await read_form(request)
        session = self._access.find_session(form.get("token").strip())
        if session is None:
            page = render_page("login.html", is_wrong=True, theme=get_theme(request))
            return HTMLResponse(page, 401)
        answer = RedirectResponse("/", 303)
        is_secure = request.url.scheme == "https" or (
            request.headers.get("x-forwarded-proto") == "https"
        )
        set_session(answer, session, is_secure=is_secure)
        return answer

    async def sign_out(self, request: Request) -> Response:
        """Let the browser forget who is signed in."""
        del request
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(COOKIE)
        return answer


class WebChat:
    """The pages of one memory. Belongs to one event loop."""

    def __init__(
        self,
        memory: ConversationMemory,
        models: Mapping[str, BaseChatModel | Runnable[Any, Any]],
        access: Access,
    ) -> None:
        """Show a memory; see `build_app`."""
        self.memory = memory
        self.access = access
        self.reader = ThreadReader(memory)
        self.entrance = Entrance(self.reader, access)
        self.chains = {n: memory.wrap(one, record_recall=True) for n, one in models.items()}
        self.replies = LiveReplies(memory, self.chains)
        self.imports = ImportJobs(memory)
        self._load_once = cache(self._load_ahead)

    async def aclose(self) -> None:
        """Stop what is under way, and wait until it is stored."""
        await self.replies.aclose()
        await self.imports.aclose()

    def list_routes(self) -> list[Route | Mount]:
        """Return every address and what answers it."""
        get: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "/": self.entrance.open_first,
            "/login": self.entrance.show_login,
            "/users": self.entrance.show_users,
            "/chat": self.show_chat,
            "/messages": self.show_messages,
            "/threads": self.show_threads,
            "/live": self.follow_reply,
            "/why": self.show_why,
            "/source": self.show_source,
            "/picture": self.show_picture,
            "/summaries": self.show_summaries,
            "/profile": self.show_profile,
            "/search": self.show_search,
            "/settings": self.show_settings,
            "/rename": self.show_rename,
            "/forget": self.show_forget,
            "/import": self.show_import,
            "/import/job": self.show_import_job,
            "/export": self.export_lines,
            "/report": self.export_report,
        }
        post: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "/login": self.entrance.sign_in,
            "/logout": self.entrance.sign_out,
            "/say": self.say,
            "/again": self.answer_again,
            "/stop": self.stop,
            "/undo": self.undo,
            "/redo": self.redo,
            "/clear": self.clear,
            "/fork": self.fork,
            "/rename": self.rename,
            "/archive": self.archive,
            "/settings": self.save_settings,
            "/summaries/undo": self.undo_summary,
            "/profile": self.decide,
            "/forget": self.forget,
            "/import": self.take_file,
        }
        return [
            *(Route(path, answer, methods=["GET"]) for path, answer in get.items()),
            *(Route(path, answer, methods=["POST"]) for path, answer in post.items()),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]

    def _render(
        self, request: Request, name: str, place: ThreadPlace, **values: Any
    ) -> HTMLResponse:
        shared = {
            "place": place,
            "theme": get_theme(request),
            "models": list(self.chains),
            "may_choose_user": request.scope.get("fixed_user") is None,
            "may_sign_out": self.access.has_tokens,
        }
        return HTMLResponse(render_page(name, **shared, **values))

    # -- reading ----------------------------------------------------------------------------------

    async def show_chat(self, request: Request) -> Response:
        """Show a thread, or an empty one under a new name."""
        place = find_place(request)
        if place.thread_id is None:
            place = ThreadPlace(place.user_id, make_ulid())
        else:
            await self.replies.recover(place.key)
        window, at = read_window(request), read_number(request, "at")
        live = self.replies.find(
            place.key
        )  # first: a reply that ends meanwhile must not be in neither
        infos = await self.memory.athreads(place.user_id)
        info = next((one for one in infos if one.key == place.key), None)
        page = await self.reader.read_page(place.key, window=window, at=at, info=info)
        rows, total = await self.reader.list_threads(place.user_id, infos=infos)
        settings = await self.reader.read_settings(place.key)
        self._load_once(place.user_id)
        return self._render(
            request,
            "chat.html",
            place,
            page=page,
            rows=rows,
            total=total,
            listed=LISTED,
            is_archived_list=False,
            live=live,
            settings=settings,
            window=window,
            next_window=window * 4,
        )

    async def show_messages(self, request: Request) -> Response:
        """Show the messages of a thread alone, for a page that is open already."""
        place = find_place(request)
        window = read_window(request)
        live = self.replies.find(place.key)
        page = await self.reader.read_page(place.key, window=window)
        return self._render(
            request,
            "messages.html",
            place,
            page=page,
            live=live,
            window=window,
            next_window=window * 4,
        )

    def _load_ahead(self, user_id: str) -> None:
        """Load a user's lines and profile while the person reads and types."""
        for load in (self.memory.arefresh, self.memory.aprofile):
            self.replies.run_aside(load(user_id=user_id))

    async def show_threads(self, request: Request) -> Response:
        """Show a user's threads, for a page that is open already."""
        place = find_place(request)
        is_archived = request.query_params.get("archived") == "1"
        most = min(read_number(request, "most") or LISTED, MOST_WINDOW)
        rows, total = await self.reader.list_threads(place.user_id, archived=is_archived, most=most)
        return self._render(
            request,
            "threads.html",
            place,
            rows=rows,
            total=total,
            listed=most,
            is_archived_list=is_archived,
        )

    async def show_why(self, request: Request) -> Response:
        """Show what a reply was given of earlier conversations, and why."""
        place = find_place(request)
        message_id = request.query_params.get("message", "")
        found = await self.reader.explain(place.key, message_id)
        if found is None:
            raise ConfigError("this message no longer exists; reload the page")
        return self._render(request, "why.html", place, found=found)

    async def show_summaries(self, request: Request) -> Response:
        """Show the summaries that a model reads of a thread."""
        place = find_place(request)
        summaries = await self.reader.list_summaries(place.key)
        return self._render(
            request,
            "summaries.html",
            place,
            summaries=summaries,
            summarizes=get_turn_memory(self.memory).compactor is not None,
        )

    async def show_profile(self, request: Request) -> Response:
        """Show what is known about a user, in their own words."""
        place = find_place(request)
        profile = await self.memory.aprofile(place.user_id)
        is_used = get_turn_memory(self.memory).get_profile_budget(TurnOptions()) > 0
        items = {kind: profile.list_kind(kind) for kind in KINDS}
        return self._render(
            request, "profile.html", place, items=items, past=profile.past[::-1], is_used=is_used
        )

    async def decide(self, request: Request) -> Response:
        """Pin, retract or restore an item of a user's profile."""
        form, place = await read_placed_form(request)
        profile = await self.memory.aprofile(place.user_id)
        decisions = {
            "pin": profile.apin,
            "retract": profile.aretract,
            "restore": profile.arestore,
        }
        verdict = form.require("verdict")
        if verdict not in decisions:
            known = ", ".join(decisions)
            raise ConfigError(f"verdict is {describe_value(verdict)}; expected one of {known}")
        await decisions[verdict](form.require("item"))
        return JSONResponse({"decided": verdict})

    async def show_search(self, request: Request) -> Response:
        """Show what was said that fits a query."""
        place = find_place(request)
        query = request.query_params.get("q", "")
        found = await self.reader.search(place.user_id, query)
        rows: list[ThreadRow] = []
        total = 0
        is_part = bool(request.headers.get("hx-request"))
        if not is_part:
            rows, total = await self.reader.list_threads(place.user_id)
        return self._render(
            request,
            "found.html" if is_part else "search.html",
            place,
            query=query,
            found=found,
            rows=rows,
            total=total,
            listed=LISTED,
            is_archived_list=False,
        )

    # -- saying -----------------------------------------------------------------------------------

    async def say(self, request: Request) -> Response:
        """Take what the user says, and send the reply as it comes."""
        form, place = await read_placed_form(request)
        key = place.key
        edited = await self.memory.log.afind(key, [form.get("id")]) if form.get("id") else []
        content = read_said(form, edited[-1].message if edited else None)
        question = HumanMessage(content, id=form.get("id") or make_ulid())
        settings = await self.reader.read_settings(key)
        if form.get("id"):
            await self.reader.drop_title(key)  # it may be the first line that is said otherwise
        return _send_events(self.replies.start(key, question, settings))

    async def show_picture(self, request: Request) -> Response:
        """Send a picture of a message, by the number of its block."""
        entry = await self._find_entry(find_place(request), request.query_params.get("message", ""))
        found = dict(list_pictures(entry.message)).get(read_number(request, "block") or 0)
        if found is None:
            raise ConfigError("this picture no longer exists; reload the page")
        data = base64.b64decode(found.data)
        return Response(data, media_type=found.type, headers={"Cache-Control": "private"})

    async def answer_again(self, request: Request) -> Response:
        """Answer a question of the thread anew; the new reply takes the place of the old one."""
        form, place = await read_placed_form(request)
        entry = await self._find_entry(place, form.require("message"))
        if entry.role != "user" or entry.message is None:
            raise ConfigError("only a user's message can be answered again")
        settings = await self.reader.read_settings(place.key)
        question = HumanMessage(**{**entry.message.model_dump(), "id": entry.message_id})
        return _send_events(self.replies.start(place.key, question, settings))

    async def show_source(self, request: Request) -> Response:
        """Return a message as it was said, for an editor."""
        place = find_place(request)
        entry = await self._find_entry(place, request.query_params.get("message", ""))
        return JSONResponse({"text": "\n\n".join(entry.contents)})

    async def _find_entry(self, place: ThreadPlace, message_id: str) -> Entry:
        found = await self.memory.log.afind(place.key, [message_id])
        if not found:
            raise ConfigError("this message no longer exists; reload the page")
        return found[-1]

    async def follow_reply(self, request: Request) -> Response:
        """Send the reply that is under way in a thread; 204 if none is."""
        place = find_place(request)
        reply = self.replies.find(place.key)
        return Response(status_code=204) if reply is None else _send_events(reply)

    async def stop(self, request: Request) -> Response:
        """Stop what is under way in a thread; what came is kept."""
        _, place = await read_placed_form(request)
        return JSONResponse({"stopped": self.replies.stop(place.key)})

    # -- taking back, forking, naming -------------------------------------------------------------

    async def undo(self, request: Request) -> Response:
        """Undo the last exchange."""
        _, place = await read_placed_form(request)
        history = self.memory.history(place.key.thread_id, user_id=place.user_id)
        undone = await history.aundo()
        await self.reader.drop_title(place.key)
        return JSONResponse({"undone": sum(len(turn.entries) for turn in undone)})

    async def redo(self, request: Request) -> Response:
        """Restore what was undone last."""
        _, place = await read_placed_form(request)
        history = self.memory.history(place.key.thread_id, user_id=place.user_id)
        done = await history.aredo()
        await self.reader.drop_title(place.key)
        return JSONResponse({"redone": done})

    async def clear(self, request: Request) -> Response:
        """Let a thread start anew; the log keeps what was said."""
        _, place = await read_placed_form(request)
        await self.memory.history(place.key.thread_id, user_id=place.user_id).aclear()
        await self.reader.drop_title(place.key)
        return JSONResponse({"cleared": True})

    async def fork(self, request: Request) -> Response:
        """Make a thread that goes on from a message of this one."""
        form, place = await read_placed_form(request)
        history = await self.memory.afork(
            place.key.thread_id, at=form.get("message") or None, user_id=place.user_id
        )
        settings = await self.reader.read_settings(place.key)
        fork = ThreadPlace(place.user_id, history.thread_id)
        if settings:
            await self.reader.write_settings(fork.key, settings)
        return JSONResponse({"url": fork.build_url("/chat")})

    async def show_rename(self, request: Request) -> Response:
        """Ask for another title."""
        place = find_place(request)
        title = await self.memory.aget_title(place.key.thread_id, user_id=place.user_id)
        page = await self.reader.read_page(place.key, window=1)
        return self._render(request, "rename.html", place, title=title or page.title)

    async def rename(self, request: Request) -> Response:
        """Give a thread another title; an empty one is made of what was said first."""
        form, place = await read_placed_form(request)
        await self.memory.aset_title(place.key.thread_id, form.get("title"), user_id=place.user_id)
        return JSONResponse({"renamed": True})

    async def archive(self, request: Request) -> Response:
        """Put a thread away, or take it out again."""
        form, place = await read_placed_form(request)
        is_archived = form.get("archived") == "1"
        await self.memory.aarchive(place.key.thread_id, user_id=place.user_id, archived=is_archived)
        return JSONResponse({"archived": is_archived})

    async def undo_summary(self, request: Request) -> Response:
        """Take the latest summary back: what it stands for is shown to the model again."""
        _, place = await read_placed_form(request)
        history = self.memory.history(place.key.thread_id, user_id=place.user_id)
        return JSONResponse({"undone": await history.aundo_summary() is not None})

    # -- settings ---------------------------------------------------------------------------------

    async def show_settings(self, request: Request) -> Response:
        """Show what a thread sets of its turns, and what holds otherwise."""
        place = find_place(request)
        settings = await self.reader.read_settings(place.key)
        budget = get_turn_memory(self.memory).get_recall_budget(TurnOptions())
        return self._render(
            request,
            "settings.html",
            place,
            settings=settings,
            recall_budget=budget,
            summarizes=get_turn_memory(self.memory).compactor is not None,
            embedder=type(get_turn_memory(self.memory).line_recall.embeddings).__name__,
            log=type(self.memory.log).__name__,
        )

    async def save_settings(self, request: Request) -> Response:
        """Keep what a thread sets of its turns."""
        form, place = await read_placed_form(request)
        settings = read_form_settings(form.fields)
        await self.reader.write_settings(place.key, settings)
        return JSONResponse({"saved": True, "recall": settings["recall"]})

    # -- forgetting -------------------------------------------------------------------------------

    async def show_forget(self, request: Request) -> Response:
        """Say plainly what is about to be erased, and ask."""
        place = find_place(request)
        message_id = request.query_params.get("message")
        scope = request.query_params.get("scope", "thread")
        text = ""
        if scope == "message" and message_id:
            text = "\n".join((await self._find_entry(place, message_id)).contents)
        _, threads = await self.reader.list_threads(place.user_id, most=0)
        return self._render(
            request,
            "forget.html",
            place,
            scope=scope,
            message_id=message_id or "",
            text=text[:600],
            threads=threads,
        )

    async def forget(self, request: Request) -> Response:
        """Erase a message, a thread or a user for good, and return the receipt."""
        form, place = await read_placed_form(request)
        scope = form.require("scope")
        if scope == "message":
            ids = [form.require("message")]
            receipt = await self.memory.aforget(
                user_id=place.user_id, thread_id=place.key.thread_id, entry_ids=ids
            )
        elif scope == "thread":
            self.replies.stop(place.key)
            receipt = await self.memory.aforget(
                user_id=place.user_id, thread_id=place.key.thread_id
            )
        elif scope == "user":
            if form.get("confirm").strip() != place.user_id:
                raise ConfigError("type the user's name to confirm; nothing was erased")
            receipt = await self.memory.aforget(user_id=place.user_id)
        else:
            raise ConfigError(f"scope must be message, thread or user, got {scope[:20]!r}")
        return self._render(request, "receipt.html", place, receipt=receipt, scope=scope)

    # -- files ------------------------------------------------------------------------------------

    async def show_import(self, request: Request) -> Response:
        """Show where files can be dropped."""
        place = find_place(request)
        return self._render(request, "import.html", place)

    async def take_file(self, request: Request) -> Response:
        """Take in a file and begin to import it; its name and user stand in the address."""
        place = find_place(request)
        name = request.query_params.get("name", "")
        job = await self.imports.take(place.user_id, name, request.stream())
        return JSONResponse(job.encode())

    async def show_import_job(self, request: Request) -> Response:
        """Report how far an import is."""
        place = find_place(request)
        job = self.imports.find(place.user_id, request.query_params.get("job", ""))
        if job is None:
            raise ConfigError("this import is no longer known; import the file again")
        return JSONResponse(job.encode())

    async def export_lines(self, request: Request) -> Response:
        """Send a thread, or all of a user, as lines of JSON that `convmem import` reads."""
        place = find_place(request)
        rows = export_rows(self.memory.log, Owner(user_id=place.user_id), thread_id=place.thread_id)
        name = f"convmem-{place.thread_id or place.user_id}.jsonl"
        return StreamingResponse(
            _read_rows(rows),
            media_type="application/jsonl",
            headers={"Content-Disposition": _name_attachment(name)},
        )

    async def export_report(self, request: Request) -> Response:
        """Send a thread, or all of a user, as one page that can be read without a server."""
        place = find_place(request)
        redact = request.query_params.get("redact") == "1"
        pieces = stream_report(self.memory, place.user_id, thread_id=place.thread_id, redact=redact)
        first = await anext(pieces)  # what is missing is said before anything is sent
        name = "convmem-report" if redact else f"convmem-{place.thread_id or place.user_id}"
        headers = {"Content-Disposition": _name_attachment(f"{name}.html")}
        return StreamingResponse(_chain(first, pieces), media_type="text/html", headers=headers)


# -- sending --------------------------------------------------------------------------------------


def _send_events(reply: LiveReply) -> StreamingResponse:
    """Return a reply as server-sent events."""

    async def encode() -> AsyncIterator[str]:
        async for event in reply.follow():
            yield f"event: {event.name}\ndata: {json.dumps(event.data)}\n\n"

    return StreamingResponse(encode(), media_type="text/event-stream", headers=_EVENTS)


async def _read_rows(rows: Iterable[str]) -> AsyncIterator[str]:
    """Yield lines, many at once; a worker reads them."""
    iterator = iter(rows)
    while page := await hop(lambda: list(islice(iterator, 500))):
        yield "".join(f"{row}\n" for row in page)


async def _chain(first: str, rest: AsyncIterator[str]) -> AsyncIterator[str]:
    yield first
    async for piece in rest:
        yield piece


def _name_attachment(name: str) -> str:
    return f"attachment; filename*=UTF-8''{quote(name, safe='')}"
