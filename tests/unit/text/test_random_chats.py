from __future__ import annotations

from pathlib import Path

import pytest

from langchain_convmem.text.chat_template import BUILTINS, ChatTemplate

REMEMBERING = """\
{%- set ns = namespace(users=0, open=false) -%}
{%- set turns = messages[1:] if messages and messages[0].role == 'system' else messages -%}
{%- for m in turns -%}
    {%- if m.role == 'user' -%}{%- set ns.users = ns.users + 1 -%}{%- endif -%}
    {%- if m.role == 'developer' -%}{%- continue -%}{%- endif -%}
    {{- ns.users ~ m.role ~ ('>' if loop.changed(m.role) else '') ~ loop.cycle('a', 'b') -}}
    {{- m.content -}}
    {%- if not loop.last and loop.nextitem.role == 'tool' -%}{{- '[tool]' -}}{%- endif -%}
    {%- if turns[loop.index0 + 1] is defined -%}{{- ';' -}}{%- endif -%}
    {%- set ns.open = m.role == 'user' -%}
{%- endfor -%}
{{- '?' if ns.open -}}{{- '=' if add_generation_prompt -}}
"""
SOURCES = {
    "remembering": REMEMBERING,
    **{name: ChatTemplate.from_builtin(name).source for name in BUILTINS},
}


@pytest.fixture
def check_template(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3]))
    from tests.fuzz.chat_templates import check_template

    return check_template


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_what_is_sent_for_each_turn_makes_the_whole_prompt(check_template, name):
    found = check_template(SOURCES[name], chats=40, seed=7)
    assert found.mismatches == []
    assert min(found.turns, found.diverged, found.ahead) > 0
