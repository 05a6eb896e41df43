"""What the prompt of one more turn costs, from the 10th message of a chat to the 2,000th.

    python -m benchmarks.templates [--rounds 20] [--json]

A chat goes on with a reply and a question, of about 300 characters each. Three ways to find the
text that the model's session needs, measured in alternation on the same messages, so that a machine
that becomes busier slows all alike:

    incremental   `RenderState.feed`: what is new, compared with what the session really received;
                  five times in a row, on copies, since it is so short
    full          one render of everything by plain Jinja2 in the same sandbox, uncompared
    diff          two renders, with and without what is new, and what the second has more; all
                  of it where it does not begin as the first

Templates are those of the package, and one that looks for the last question before it writes
anything, as many reasoning models' do: there `feed` has to render everything, too.

Figures, medians: milliseconds for one turn; `first`: for a chat of that length from nothing, once
by `feed` and, in brackets, by plain Jinja2. Times are those of the processor.

Bars: where the template allows it, a turn at 2,000 messages costs at most twice what it costs at
10; aim: 0.1 ms. Only the ratio decides the exit code.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from langchain_convmem import ChatTemplate
from langchain_convmem.text import RenderState
from langchain_convmem.text.chat_template import BUILTINS

SIZES = (10, 200, 2000)
RATIO = 2.0
AIM_MS = 0.1
_IN_A_ROW = 5
SCANNING = """\
{%- set seen = namespace(last=-1) -%}
{%- for message in messages -%}
    {%- if message.role == 'user' -%}{%- set seen.last = loop.index0 -%}{%- endif -%}
{%- endfor -%}
{%- for message in messages -%}
    {{- '<|' ~ message.role ~ '|>' ~ ('(last)' if loop.index0 == seen.last else '') -}}
    {{- message.content ~ '\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}
"""

Message = dict[str, str]


@dataclass
class Chat:
    """A chat of some length, and the next turn."""

    state: RenderState
    plain: Callable[..., str]
    messages: list[Message]
    new: list[Message]

    def ways(self) -> dict[str, Callable[[], object]]:
        """Return what is measured; each leaves the chat as it was."""
        return {
            "incremental": partial(self.state.copy().feed, self.new),
            "full": self._full,
            "diff": self._difference,
        }

    def _full(self) -> str:
        return self.plain(messages=[*self.messages, *self.new], add_generation_prompt=True)

    def _difference(self) -> str:
        before = self.plain(messages=self.messages, add_generation_prompt=False)
        whole = self._full()
        return whole.removeprefix(before)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code, which is 1 when a ratio fails."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.templates",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=20, help="turns of each kind and length")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error(f"--rounds must be at least 1, got {options.rounds}")
    report = measured(options.rounds)
    print(json.dumps(report, indent=2) if options.json else _table(report))
    return 0 if all(bar["ok"] for bar in report["bars"] if bar["decides"]) else 1


def measured(rounds: int) -> dict[str, Any]:
    """Return figures and bars as plain JSON."""
    templates = {name: ChatTemplate.from_builtin(name) for name in BUILTINS}
    rows = [
        row
        for name, template in {**templates, "scanning": ChatTemplate(SCANNING)}.items()
        for row in _rows(name, template, rounds)
    ]
    return {
        "python": platform.python_version(),
        "jinja2": jinja2.__version__,
        "rounds": rounds,
        "rows": rows,
        "bars": [bar for name in templates for bar in _bars(name, rows)],
    }


def _rows(name: str, template: ChatTemplate, rounds: int) -> list[dict[str, Any]]:
    plain = _plain(template)
    chats, firsts = {}, {}
    for size in SIZES:
        *messages, reply, question = [_message(number) for number in range(size + 1)]
        firsts[size] = {
            "incremental": _timed(partial(template.start().feed, messages)),
            "full": _timed(partial(plain, messages=messages, add_generation_prompt=True)),
        }
        state = template.start()
        state.feed(messages[:2])
        state.feed(messages[2:])
        state.record_reply(reply["content"])
        chats[size] = Chat(state, plain, messages, [reply, question])
    times = _times(chats, rounds)
    return [
        {
            "template": name,
            "messages": size,
            "mode": chats[size].state.copy().feed(chats[size].new).stats.mode,
            "turn_ms": {way: round(median(found), 4) for way, found in times[size].items()},
            "first_ms": {way: round(found, 3) for way, found in firsts[size].items()},
        }
        for size in SIZES
    ]


def _times(chats: dict[int, Chat], rounds: int) -> dict[int, dict[str, list[float]]]:
    times: dict[int, dict[str, list[float]]] = {
        size: {"incremental": [], "full": [], "diff": []} for size in chats
    }
    for _ in range(rounds):
        for size, chat in chats.items():
            for way in ("full", "diff", *["incremental"] * _IN_A_ROW):
                times[size][way].append(_timed(chat.ways()[way]))
    return times


def _timed(call: Callable[[], object]) -> float:
    start = time.thread_time_ns()
    call()
    return (time.thread_time_ns() - start) / 1e6


def _message(number: int) -> Message:
    role = "assistant" if number % 2 else "user"
    return {"role": role, "content": f"Message {number} of a long chat. " + "Some words. " * 22}


def _plain(template: ChatTemplate) -> Callable[..., str]:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    tokens = BUILTINS.get(template.name, {})
    compiled = environment.from_string(template.source, globals=dict(tokens))
    return compiled.render


def _bars(name: str, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    turns = {row["messages"]: row["turn_ms"] for row in rows if row["template"] == name}
    ratio = round(turns[SIZES[-1]]["incremental"] / turns[SIZES[0]]["incremental"], 2)
    slowest = max(turn["incremental"] for turn in turns.values())
    what = f"{name}: a turn at {SIZES[-1]:,} messages : at {SIZES[0]}"
    aim = f"{name}: slowest turn, ms"
    return [
        {"what": what, "value": ratio, "bound": RATIO, "ok": ratio <= RATIO, "decides": True},
        {
            "what": aim,
            "value": slowest,
            "bound": AIM_MS,
            "ok": slowest <= AIM_MS,
            "decides": False,
        },
    ]


def _table(report: dict[str, Any]) -> str:
    head = f"{'template':<10}{'messages':>9}  {'mode':<12}{'incremental':>12}{'full':>9}{'diff':>9}"
    lines = [
        f"Python {report['python']}, Jinja2 {report['jinja2']}, {report['rounds']} rounds; ms",
        f"{head}{'full : incr.':>14}   first",
    ]
    for row in report["rows"]:
        turn, first = row["turn_ms"], row["first_ms"]
        lines.append(
            f"{row['template']:<10}{row['messages']:>9,}  {row['mode']:<12}"
            f"{turn['incremental']:>12.3f}{turn['full']:>9.3f}{turn['diff']:>9.3f}"
            f"{turn['full'] / turn['incremental']:>13.1f}x"
            f"   {first['incremental']:.1f} ({first['full']:.1f})"
        )
    lines.append("")
    for bar in report["bars"]:
        missed = "MISSED" if bar["decides"] else "aim missed"
        verdict = "ok" if bar["ok"] else missed
        lines.append(f"{bar['what']:<48}{bar['value']:>8.3f}  at most {bar['bound']:<6g} {verdict}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
