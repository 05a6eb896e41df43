"""What an attack is planted in, ours and the usual way, and the structure of what comes out."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    get_buffer_string,
)
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda

from benchmarks.injections.corpus import Attack, load_families
from langchain_convmem import ConversationMemory, PromptFile
from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.offline import ExtractiveSummarizer
from langchain_convmem.summarizing.summarizers import (
    SummaryRequest,
    build_messages,
    read_transcript,
    split_transcript,
)
from langchain_convmem.turns.chains import MessageList
from langchain_convmem.views.providers import PROVIDERS

Structure: TypeAlias = tuple[tuple[str, ...], ...]
"""Tokens, lines, sections or fences, in order."""

REFUSED: Structure = (("refused",),)
"""The text was not taken at all."""

_USER, _THREAD, _OTHER = "u", "earlier", "now"
_SAID = "That is what I said."
_BY_CATEGORY = ("recall", "imports", "summaries")
_HINT = "The spade stands in the shed."
_HEADER = re.compile(r"\[[^\]]*\]|\(\d{4}-\d\d-\d\d\)")
_SPEAKER = re.compile(r"(.*?):(?: (.*))?")
_TAG = re.compile(
    r"<\s*/?\s*(?:recalled|summary|context|transcript|previous_summary)\b", re.IGNORECASE
)
_HEADING = re.compile(r"\*\*.*:\*\*")
_NAMED = (
    "{%- for m in messages -%}{{- '<|im_start|>' ~ m['role'] ~ ' ' ~ (m['name'] or '') ~ '\\n' ~ "
    "m['content'] ~ '<|im_end|>\\n' -}}{%- endfor -%}"
)
_CHATML = re.compile(r"<\|im_start\|>\w+|<\|im_end\|>")


def read_ours(attack: Attack, text: str) -> Structure:
    """Return the structure of what the package makes with a text in the attack's place."""
    return _READERS[_name_surface(attack)][0](attack, text)


def read_usual(attack: Attack, text: str) -> Structure:
    """Return the structure of what is usually made with a text in the attack's place."""
    return _READERS[_name_surface(attack)][1](attack, text)


def find_trust(attack: Attack) -> str:
    """Return the trust class that the line of an imported attack has."""
    with ConversationMemory.open(":memory:") as memory:
        _import(memory, attack.text)
        found = memory.recall("spade", user_id=_USER, k=1)
        (trust,) = {line.trust for block in found.blocks for line in block.lines}
    return trust


def _name_surface(attack: Attack) -> str:
    if attack.category == "templates":
        return "templates"
    return attack.category if attack.category in _BY_CATEGORY else attack.place


# -- chat templates -------------------------------------------------------------------------------


def _read_template(attack: Attack, text: str) -> Structure:
    family = load_families()[attack.family]
    prompt = family.make_template().render(_build_chat(attack.place, text))
    return _list_tokens(family.structure, prompt)


def _read_plain_template(attack: Attack, text: str) -> Structure:
    family = load_families()[attack.family]
    messages = [_to_map(one) for one in _build_chat(attack.place, text)]
    prompt = _render_plainly(family.source, messages, **family.variables)
    return _list_tokens(family.structure, prompt)


def _build_chat(place: str, text: str) -> list[BaseMessage]:
    """Return a chat with the text in one place; in two blocks, the cut is within a token."""
    half = next((found.start() + 2 for found in re.finditer(r"[<\[#]", text)), len(text) // 2)
    blocks: list[str | dict[Any, Any]] = [
        {"type": "text", "text": one} for one in (text[:half], text[half:])
    ]
    return [
        SystemMessage(text if place == "system" else "Be brief."),
        HumanMessage(text if place == "user" else "Hello"),
        *(
            _call_a_tool(text)
            if place == "tool"
            else (AIMessage(text if place == "assistant" else "Hi."),)
        ),
        HumanMessage(blocks if place == "parts" else "And now?"),
    ]


def _call_a_tool(result: str, name: str = "look_up") -> list[BaseMessage]:
    """Return a call, its result and the answer."""
    call = {"name": name, "args": {"what": "sum"}, "id": "c1"}
    return [
        AIMessage("", tool_calls=[call]),
        ToolMessage(result, tool_call_id="c1", name="look_up"),
        AIMessage("As it says."),
    ]


def _to_map(message: BaseMessage) -> dict[str, Any]:
    roles = {"human": "user", "ai": "assistant"}
    role = message.role if isinstance(message, ChatMessage) else message.type
    return {"role": roles.get(role, role), "content": str(message.text), "name": message.name}


def _render_plainly(source: str, messages: Sequence[dict[str, Any]], **variables: str) -> str:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    template = environment.from_string(source)
    return template.render(messages=messages, add_generation_prompt=True, **variables)


def _list_tokens(structure: re.Pattern[str], prompt: str) -> Structure:
    return tuple((token,) for token in structure.findall(prompt))


def _build_named_chat(attack: Attack, text: str) -> list[BaseMessage]:
    first: BaseMessage = (
        ChatMessage(role=text, content=_SAID)
        if attack.place == "role"
        else HumanMessage(_SAID, name=text)
    )
    return [first, AIMessage("I see."), HumanMessage("Go on.")]


def _read_name_in_template(attack: Attack, text: str) -> Structure:
    family = load_families()["chatml"]
    template = type(family.make_template())(_NAMED)
    try:
        prompt = template.render(_build_named_chat(attack, text))
    except InvalidMessageError:
        return REFUSED
    return _list_tokens(_CHATML, prompt)


def _read_name_in_plain_template(attack: Attack, text: str) -> Structure:
    messages = [_to_map(one) for one in _build_named_chat(attack, text)]
    return _list_tokens(_CHATML, _render_plainly(_NAMED, messages))


# -- lines of speakers ----------------------------------------------------------------------------


def _read_lines(text: str, *, by_name: bool = False) -> Structure:
    """Return what stands at the margin, by whatever Unicode calls a line end.

    With `by_name` a line counts by what follows its speaker: names are what differs.
    """
    found: list[tuple[str, ...]] = []
    for line in text.splitlines():
        if not line or line[0].isspace():
            continue
        said = _SPEAKER.fullmatch(line)
        if _HEADER.fullmatch(line):
            found.append(("date",))
        elif said:
            found.append(("line", (said[2] or "") if by_name else said[1]))
    return tuple(found)


def _read_fences(text: str) -> Structure:
    return tuple(("tag",) for _ in _TAG.findall(text))


def _build_lines(attack: Attack, text: str) -> list[BaseMessage]:
    is_name = attack.category == "names"
    return [
        HumanMessage("Good morning.", name="Cleo"),
        HumanMessage(_HINT, name="Dan"),
        HumanMessage(_SAID if is_name else text, name=text if is_name else "Cleo"),
        HumanMessage("Good night.", name="Dan"),
    ]


def _read_recalled(attack: Attack, text: str) -> Structure:
    with ConversationMemory.open(":memory:") as memory:
        if attack.category == "imports":
            _import(memory, text)
        else:
            lines = _build_lines(attack, text)
            memory.add_messages(lines, thread_id=_THREAD, user_id=_USER)
        return _read_memory(memory, by_name=attack.category == "names")


def _read_memory(memory: ConversationMemory, *, by_name: bool) -> Structure:
    """Return the structure of a document, and of what a model gets in a turn."""
    seen: list[BaseMessage] = []

    def answer(given: dict[str, Any]) -> AIMessage:
        seen.extend(given["messages"])
        return AIMessage("In the shed.")

    where = {"thread_id": _OTHER, "user_id": _USER, "memory": {"recall_k": 1, "profile_tokens": 0}}
    [document] = memory.retriever(user_id=_USER, k=1).invoke("Where is the spade?")
    chain = memory.wrap(RunnableLambda(answer))
    chain.invoke("Where is the spade?", config={"configurable": where})
    shown = [str(message.text) for message in seen]
    return (
        *_read_lines(document.page_content, by_name=by_name),
        ("turn",),
        *(part for one in shown for part in _read_lines(one, by_name=by_name)),
        *_read_fences("\n".join(shown)),
    )


def _import(memory: ConversationMemory, text: str) -> None:
    messages = [
        {"role": "user", "content": said} for said in ("Good morning.", _HINT, text, "Good night.")
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chat.json"
        path.write_text(json.dumps(messages), "utf-8")
        memory.import_file(path, user_id=_USER, thread_id=_THREAD)


def _read_transcript(attack: Attack, text: str) -> Structure:
    with ConversationMemory.open(":memory:") as memory:
        messages = _build_said(attack, text)
        memory.add_messages(messages, thread_id=_THREAD, user_id=_USER)
        window = memory.history(_THREAD, user_id=_USER).summary_window()
    whole = "".join(split_transcript(read_transcript(window), 4000))
    asked = build_messages(SummaryRequest(transcript=whole))[1]
    by_name = attack.category == "names" and attack.place == "transcript"
    return (
        *_read_lines(str(asked.text), by_name=by_name),
        *_read_fences(str(asked.text)),
        *_read_lines(window.format(), by_name=by_name),
    )


def _build_said(attack: Attack, text: str) -> list[BaseMessage]:
    if attack.category == "names" and attack.place == "transcript":
        return _build_lines(attack, text)
    asked = HumanMessage(text if attack.category == "transcripts" else "How much?")
    result = text if attack.category == "tool_results" else "5"
    return [asked, *_call_a_tool(result, text if attack.place == "tool_name" else "look_up")]


def _read_tool_name(attack: Attack, text: str) -> Structure:
    prompt = load_families()["qwen"].make_template().render(_build_said(attack, text))
    tokens = _list_tokens(load_families()["qwen"].structure, prompt)
    return (*_read_transcript(attack, text), *tokens)


def _read_buffer_string(attack: Attack, text: str) -> Structure:
    is_line = attack.category in ("recall", "imports") or attack.place in ("recall", "transcript")
    by_name = attack.category == "names"
    if is_line and attack.category not in ("tool_results", "transcripts"):
        said = _name_speakers(_build_lines(attack, text))
        return (*_read_lines(said, by_name=by_name), *_read_fences(said))
    said = get_buffer_string(_build_said(attack, text))
    return (*_read_lines(said), *_read_fences(said))


def _name_speakers(messages: Sequence[BaseMessage]) -> str:
    """Return messages by `get_buffer_string`, each under its name."""
    said = (get_buffer_string([one], human_prefix=str(one.name)) for one in messages)
    return "\n".join(said)


# -- summaries ------------------------------------------------------------------------------------


def _read_summaries(attack: Attack, text: str) -> Structure:
    """Return the roles of all views of a thread, and what leaves the fence of the summary."""
    return tuple(
        part for view in _build_views(attack, text) for one in view for part in _read_fenced(one)
    )


def _read_fenced(message: BaseMessage) -> Structure:
    text = str(message.text)
    start, end = text.find("<summary>"), text.find("</summary>")
    outside = text if start < 0 or end < 0 else text[:start] + text[end + len("</summary>") :]
    lines = tuple(("line",) for line in outside.splitlines() if line.strip())
    return ((message.type,), *_read_fences(text), *lines)


def _build_views(attack: Attack, text: str) -> list[list[BaseMessage]]:
    """Return what models of each provider get of a thread whose summary tells the text."""
    with ConversationMemory.open(":memory:", summarizer=ExtractiveSummarizer()) as memory:
        memory.add_messages(_build_summarised(attack, text), thread_id=_THREAD, user_id=_USER)
        history = memory.history(_THREAD, user_id=_USER)
        if attack.place == "by_hand":
            history.add_summary(text, history.summary_window())
        else:
            memory.summarize(_THREAD, user_id=_USER, force=True)
        memory.add_messages(["And now?"], thread_id=_THREAD, user_id=_USER)
        profiles = [name for name in PROVIDERS if name != "anthropic"]
        return [history.context(provider=name).messages for name in profiles]


def _build_summarised(attack: Attack, text: str) -> list[BaseMessage]:
    if attack.place != "tool":
        said = text if attack.place == "said" else "Hello"
        return [HumanMessage(said), AIMessage("I see.")]
    return [HumanMessage("How much?"), *_call_a_tool(text)]


def find_tellers(attack: Attack) -> set[str]:
    """Return whose messages tell the payload of an attack on summaries, over all providers."""
    return {
        one.type
        for view in _build_views(attack, attack.text)
        for one in view
        if "banana" in str(one.text).lower()
    }


def _read_usual_summary(attack: Attack, text: str) -> Structure:  # noqa: ARG001 - as all are called
    told = f"A summary of the conversation so far:\n<summary>\n{text}\n</summary>"
    view = [SystemMessage(told), HumanMessage("And now?")]
    return tuple(part for one in view for part in _read_fenced(one))


# -- prompts --------------------------------------------------------------------------------------

_PROMPT = """\
__* Meta *__
- *MessageSummaryTitle* = Earlier
__* Var *__
- weather = getWeather
__ Role __
You know the {{weather}}.
__ Rules __
Be brief.
"""


_USUAL_PROMPT = (
    "**Role:**\nYou know the {weather}.\n\n**Rules:**\nBe brief.\n\n"
    "<summary>\n{summary}\n</summary>"
)


def _read_prompt(attack: Attack, text: str) -> Structure:
    value, summary = (text, "") if attack.place == "variable" else ("sun", text)
    prompt = PromptFile.parse(_PROMPT, functions={"getWeather": lambda: value})
    given: dict[str, Any] = {"input": [HumanMessage("Hi")]}
    if summary:
        given["summary"] = summary
    early, late = (
        prompt.to_chat_prompt(volatile=where, include_titles=True).invoke(given).to_messages()
        for where in ("head", "tail")
    )
    whole = prompt.format(["Role", "Rules"], summary=summary)
    return (*_read_sections([*early, *late]), *_read_headings(whole))


def _read_usual_prompt(attack: Attack, text: str) -> Structure:
    prompt = ChatPromptTemplate.from_messages(
        [("system", _USUAL_PROMPT), ("human", "<context>\n{weather}\n</context>")]
    )
    value, summary = (text, "x") if attack.place == "variable" else ("sun", text)
    return _read_sections(prompt.invoke({"weather": value, "summary": summary}).to_messages())


def _read_sections(messages: Sequence[BaseMessage]) -> Structure:
    found: list[tuple[str, ...]] = []
    for message in messages:
        text = str(message.text)
        found += [(message.type,), *_read_headings(text), *_read_fences(text)]
    return tuple(found)


def _read_headings(text: str) -> Structure:
    return tuple(("section",) for line in text.splitlines() if _HEADING.match(line))


_Reader: TypeAlias = Callable[[Attack, str], Structure]
_READERS: dict[str, tuple[_Reader, _Reader]] = {
    "templates": (_read_template, _read_plain_template),
    "template": (_read_name_in_template, _read_name_in_plain_template),
    "role": (_read_name_in_template, _read_name_in_plain_template),
    "recall": (_read_recalled, _read_buffer_string),
    "imports": (_read_recalled, _read_buffer_string),
    "summaries": (_read_summaries, _read_usual_summary),
    "transcript": (_read_transcript, _read_buffer_string),
    "tool_name": (_read_tool_name, _read_buffer_string),
    "history_text": (
        lambda attack, text: _read_lines(f"{MessageList(_build_said(attack, text))}"),
        _read_buffer_string,
    ),
    "variable": (_read_prompt, _read_usual_prompt),
    "summary": (_read_prompt, _read_usual_prompt),
}
"""What reads each surface, ours and the usual way."""
