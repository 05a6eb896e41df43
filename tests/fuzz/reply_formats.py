"""What chat templates write of replies, read back: `python -m tests.fuzz.reply_formats`.

A template shows how a model writes its calls and its reasoning. What it writes behind the prompt is
what the model would have written; the format that is recognised in it must read that back. For
each template it is told whether one call, two calls and reasoning were `read`, are `unwritten` (the
template leaves them out), or were `refused` by the template. Muse's calls have no format of ours.

Templates: our own, and those of TRL's wheel; see `tests.fuzz.chat_templates`. Exit code 1 for
anything that was misread.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from os.path import commonprefix
from pathlib import Path

from langchain_core.messages import AIMessage, HumanMessage

from langchain_convmem import ChatTemplate
from langchain_convmem.errors import ChatTemplateError
from langchain_convmem.text.replies import read_reply
from langchain_convmem.text.reply_formats import ReplyFormat, find_reply_format
from tests.fuzz.reference_templates import builtin_templates, real_templates

_TOKENS = {"bos_token": "<begin-of-text>", "eos_token": "<end-of-text>"}
_SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "n": {"type": "integer"}, "in": {"type": "array"}},
}
_TOOLS = [
    {"type": "function", "function": {"name": name, "description": "d", "parameters": _SCHEMA}}
    for name in ("find", "sort")
]
_ARGUMENTS = {"text": 'a "b"\n7', "n": 3, "in": [1, {"k": None, "b": True}]}
_CALLS = [
    {"name": "find", "args": _ARGUMENTS, "id": "abcdefgh1", "type": "tool_call"},
    {"name": "sort", "args": {}, "id": "abcdefgh2", "type": "tool_call"},
]
_THOUGHT = [{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "Level C."}]
_REPLIES = {
    "one call": AIMessage("", tool_calls=_CALLS[:1]),
    "two calls": AIMessage("", tool_calls=_CALLS),
    "reasoning": AIMessage(_THOUGHT),
}


def read_back(source: str) -> tuple[ReplyFormat, Mapping[str, str]]:
    """Return the format that is recognised in a template, and what became of each reply."""
    template = ChatTemplate(source, **_TOKENS)
    form = find_reply_format(template)
    return form, {name: _outcome(template, form, reply) for name, reply in _REPLIES.items()}


def _outcome(template: ChatTemplate, form: ReplyFormat, reply: AIMessage) -> str:
    chat = [HumanMessage("Where did I park?")]
    try:
        prompt = template.render(chat, tools=_TOOLS)
        whole = template.render([*chat, reply], tools=_TOOLS, add_generation_prompt=False)
    except ChatTemplateError:
        return "refused"
    start = _common(prompt, whole)
    raw = whole[start:]
    for text in form.stop:
        raw = raw.partition(text)[0]
    read = read_reply(raw, form, prompt_end=prompt[:start], tools=_TOOLS)
    called = [(call["name"], call["args"]) for call in read.tool_calls]
    wanted = [(call["name"], call["args"]) for call in reply.tool_calls]
    if wanted:
        written = [name for name in ("find", "sort") if name in raw]
        seen = (called, read.content) == (wanted[: len(written)], "")
        return "unwritten" if not written else _told(seen, raw, written == [c[0] for c in wanted])
    thought = read.additional_kwargs.get("reasoning_content")
    seen = (thought, read.content.strip()) == ("Hm.", "Level C.")
    return _told(seen, raw, is_whole=True) if "Hm." in raw else "unwritten"


def _told(seen: bool, raw: str, is_whole: bool) -> str:
    if not seen:
        return f"misread: {raw!r}"
    return "read" if is_whole else "read in part, as it is written"


def _common(prompt: str, whole: str) -> int:
    """Return how much of the prompt the whole conversation begins with, without half a mark."""
    end = len(commonprefix([prompt, whole]))  # noqa: RUF071 - of texts
    last = prompt.rfind("<", 0, end)
    return last if last >= 0 and ">" not in prompt[last:end] else end


def main() -> int:
    """Run and return the exit code."""
    cache = Path("build/templates")
    cache.mkdir(parents=True, exist_ok=True)
    ours = {f"our {name}": source for name, source in builtin_templates().items()}
    misread = 0
    for name, source in {**ours, **real_templates(cache)}.items():
        if name.startswith("muse"):
            continue
        form, outcomes = read_back(source)
        misread += sum(outcome.startswith("misread") for outcome in outcomes.values())
        told = ", ".join(f"{reply} {outcome}" for reply, outcome in outcomes.items())
        sys.stdout.write(f"{name:<34}{form.name:<10}{told}; stops at {' '.join(form.stop)}\n")
    return 1 if misread else 0


if __name__ == "__main__":
    sys.exit(main())
