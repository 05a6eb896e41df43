"""Random chats through chat templates: `python -m tests.fuzz.chat_templates --chats 50`.

Every turn is rendered by a state of ours and by plain Jinja2. The session that follows the
increments must hold exactly the whole prompt, control tokens in texts broken up in both alike, must
have kept all that it could, and where the template refuses a turn both must refuse it with the same
words, and nothing may have changed. On the way sessions are taken back, copied, given other
variables, and half a message before the rest.

Templates: our own, and those of TRL's wheel, which pip downloads to build/ unless TRL is installed
(without its dependencies: `pip install --no-deps trl`). Prints a table; exit code 1 for any
mismatch, or with `--least` for fewer templates.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from os.path import commonprefix
from pathlib import Path
from typing import Any

from langchain_convmem import ChatTemplate
from langchain_convmem.errors import ChatTemplateError, InvalidMessageError
from langchain_convmem.text import RenderState
from langchain_convmem.text.control_tokens import show_seals
from tests.fuzz.random_chats import Turn, random_chat
from tests.fuzz.reference_templates import NOW, builtin_templates, plain_renderer, real_templates

_SHOWN = 20


@dataclass
class Findings:
    """What was seen of one template."""

    turns: int = 0
    refused: int = 0
    diverged: int = 0
    ahead: int = 0
    mismatches: list[str] = field(default_factory=list)

    @classmethod
    def total(cls, parts: Iterable[Findings]) -> Findings:
        """Return what was seen of all."""
        whole = cls()
        for part in parts:
            for name, value in vars(part).items():
                setattr(whole, name, getattr(whole, name) + value)
        return whole


def check_template(source: str, chats: int, seed: int) -> Findings:
    """Return what random chats found of a template."""
    template = ChatTemplate(source, now=lambda: NOW)
    plain = plain_renderer(source)
    findings = Findings()
    for number in range(chats):
        rng = random.Random(f"{seed}:{number}")
        base, turns = random_chat(rng)
        chat = _Chat(template, plain, base, findings)
        for place, turn in enumerate(turns):
            fault = chat.turn(turn)
            if fault is not None:
                findings.mismatches.append(f"seed {seed}, chat {number}, turn {place}: {fault}")
                break
    return findings


class _Chat:
    """A chat, and the text that its session would hold."""

    def __init__(
        self,
        template: ChatTemplate,
        plain: Callable[..., str],
        base: Mapping[str, Any],
        findings: Findings,
    ) -> None:
        self._plain = plain
        self._template = template
        self._base = base
        self._findings = findings
        self._state = template.start(**base)
        self._session = ""
        self._messages: list[dict[str, Any]] = []

    def turn(self, turn: Turn) -> str | None:
        """Return what is wrong after a turn, None if nothing is."""
        if isinstance(turn.detour, float):
            place = int(len(self._session) * turn.detour)
            self._session = self._session[:place]
            self._state.rewind(place)
        elif turn.detour == "copy":
            # What a copy does must not be felt by what goes on.
            self._fed(self._state.copy(), Turn([*turn.messages, *turn.messages]))
        whole, refusal = self._whole(turn)
        said = turn
        if turn.detour == "ahead" and whole is not None:
            said = self._read_ahead(turn)
        sent = self._fed(self._state, said)
        self._findings.turns += 1
        if isinstance(sent, ChatTemplateError):
            return self._refused(sent, refusal)
        if whole is None:
            return f"sends {sent!r} where {refusal} is raised"
        fault = self._compare(sent, whole)
        self._messages += turn.messages
        self._session = whole + turn.reply
        self._state.record_reply(turn.reply)
        return fault

    def _read_ahead(self, turn: Turn) -> Turn:
        """Let the session read half of the last message; return what is left to say."""
        *before, last = turn.messages
        half = {**last, "content": _half(last.get("content"))}
        try:
            ahead = self._state.feed(
                [*before, half], extra_context=turn.extra, continue_final_message=True
            )
        except (ChatTemplateError, InvalidMessageError):
            return turn  # it refuses the half, or does not show where that ends
        self._findings.ahead += 1
        self._session = self._session[: ahead.kept] + ahead.text
        return replace(turn, messages=[last])

    def _whole(self, turn: Turn) -> tuple[str | None, str]:
        given = {**self._base, **turn.extra, "add_generation_prompt": turn.prompt}
        try:
            messages = [*self._messages, *turn.messages]
            said = self._seal(messages)
            return show_seals(self._plain(messages=said, **given)), ""
        except Exception as error:  # noqa: BLE001 - a template may raise anything
            return None, f"{type(error).__name__}: {error}"

    def _seal(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return messages sealed, their arguments as text or map, as the template reads them."""
        converted = self._template.convert_messages(messages, {})
        read = [
            {**message, **{key: ours[key] for key in {"tool_calls"} & {*message}}}
            for message, ours in zip(messages, converted, strict=True)
        ]
        return self._template.seal_messages(read)

    def _fed(self, state: RenderState, turn: Turn) -> tuple[int, str] | ChatTemplateError:
        try:
            increment = state.feed(
                turn.messages, extra_context=turn.extra, add_generation_prompt=turn.prompt
            )
        except ChatTemplateError as error:
            return error
        self._findings.diverged += increment.stats.diverged_at is not None
        return increment.kept, increment.text

    def _refused(self, error: ChatTemplateError, refusal: str) -> str | None:
        self._findings.refused += 1
        if f"{error.kind}: {error.reason}" != refusal:
            return f"refuses with {error.kind}: {error.reason!r}, not {refusal!r}"
        held = self._seal(self._messages)
        if self._state.read_text() != self._session or self._state.messages != held:
            return "a refused turn leaves its traces"
        return None

    def _compare(self, sent: tuple[int, str], whole: str) -> str | None:
        kept, text = sent
        if self._session[:kept] + text != whole:
            return f"the session holds {self._session[:kept] + text!r}, not {whole!r}"
        could = len(commonprefix([self._session, whole]))  # noqa: RUF071 - of texts
        if kept != could:
            return f"keeps {kept} of {could} that it could"
        return None if self._state.read_text() == whole else "the ledger holds another text"


def _half(content: Any) -> Any:
    """Return the first half of what a message says."""
    if isinstance(content, str):
        return content[: len(content) // 2]
    if not isinstance(content, list) or "text" not in content[-1]:
        return content
    return [*content[:-1], {**content[-1], "text": _half(content[-1]["text"])}]


def main() -> int:
    """Run and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.chat_templates", description=__doc__
    )
    parser.add_argument("--chats", type=int, default=30, help="for each template (default 30)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--least", type=int, default=0, help="how many real templates there must be"
    )
    parser.add_argument("--cache", type=Path, default=Path("build/templates"))
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    real = real_templates(options.cache)
    sources = {**{f"our {name}": text for name, text in builtin_templates().items()}, **real}
    found = {
        name: check_template(source, options.chats, options.seed)
        for name, source in sources.items()
    }
    total = Findings.total(found.values())
    sys.stdout.write(f"{_table(found, total, len(real))}\n")
    return 1 if total.mismatches or len(real) < options.least else 0


def _table(found: Mapping[str, Findings], total: Findings, real: int) -> str:
    names = [name for name in vars(total) if name != "mismatches"]
    head = f"{'template':<36}" + "".join(f"{name:>12}" for name in [*names, "mismatches"])
    rows = [
        f"{name:<36}"
        + "".join(f"{getattr(one, column):>12}" for column in names)
        + f"{len(one.mismatches):>12}"
        for name, one in [*found.items(), (f"all, {real} of them real", total)]
    ]
    return "\n".join([head, *rows, *total.mismatches[:_SHOWN]])


if __name__ == "__main__":
    sys.exit(main())
