"""What the site's build adds: labels that readers' tools need, and the pages as text for models."""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

_PAGES: dict[str, tuple[str, str]] = {}
"""The Markdown of each page by its path, with its title; filled while the site is built."""
_EMPTY_HEAD = re.compile(r"<th([^>]*)></th>")
_SEARCH = 'data-md-component="search" role="dialog"'
_PATH = 'class="md-path" aria-label="Navigation"'
_HINT = re.compile(r"<!--.*?-->\n*", re.DOTALL)
_REFERENCE = re.compile(r"^::: ([\w.]+)(?:\n    .*)*", re.MULTILINE)
_QUOTED = re.compile(r"(: |-> )(['\"])(.*?)\2(?=[,)= ]|$)")
"""An annotation that the code has as text."""
_OBJECT = re.compile(r"<[^>]*>")
"""A default that no code writes this way, such as a function."""


def on_pre_build(config: Any) -> None:
    """Begin a build: nothing of an earlier one is left."""
    del config
    _PAGES.clear()


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Keep the text of a page for `llms-full.txt`, unchanged."""
    del config, files
    text = _HINT.sub("", markdown).strip()
    _PAGES[page.file.src_uri] = (page.title, _REFERENCE.sub(_describe_name, text))
    return markdown


def _describe_name(found: re.Match[str]) -> str:
    """Return what a page of the reference says of a name: signatures and docstrings."""
    thing = pkgutil.resolve_name(found[1])
    parts = [*_describe_thing(found[1].rpartition(".")[2], thing)]
    names = [name for name in dir(thing) if inspect.isclass(thing) and name[0] != "_"]
    for name in names:
        member, is_async_form = getattr(thing, name), name[0] == "a" and name[1:] in names
        home = getattr(getattr(member, "fget", member), "__module__", None) or ""
        is_told = inspect.isroutine(member) or isinstance(member, property)
        if is_told and home.startswith("langchain_convmem") and not is_async_form:
            form = f"\n\nAsync: `a{name}`." if f"a{name}" in names else ""
            parts += [f"## {name}{form}", *_describe_thing(name, member)]
    return "\n\n".join(parts)


def _describe_thing(name: str, thing: Any) -> Iterator[str]:
    if inspect.isclass(thing) or inspect.isroutine(thing):
        with suppress(ValueError):  # a dict has no signature
            signature = _QUOTED.sub(r"\1\3", str(inspect.signature(thing)))
            yield f"```python\n{name}{_OBJECT.sub('...', signature)}\n```"
    yield inspect.getdoc(thing) or ""


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Name what the theme leaves without a name; head cells without text are none."""
    del page, config
    output = output.replace(_SEARCH, f'{_SEARCH} aria-label="Search"', 1)
    output = output.replace(_PATH, _PATH.replace("Navigation", "Path"), 1)
    return _EMPTY_HEAD.sub(r"<td\1></td>", output)


def on_post_template(output_content: str, template_name: str, config: Any) -> str:
    """Do the same for pages without Markdown, such as the one of an address that is none."""
    is_page = template_name.endswith(".html")
    return on_post_page(output_content, template_name, config) if is_page else output_content


def on_post_build(config: Any) -> None:
    """Write `llms.txt`, the list of pages, and `llms-full.txt`, all of them in one text."""
    site = Path(config.site_dir)
    for empty in site.glob("sitemap.xml*"):  # as the site has no address
        empty.unlink()
    for path, (_, text) in _PAGES.items():
        target = site / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text + "\n", "utf-8")
    head = f"# {config.site_name}\n\n> {config.site_description}\n"
    listed = [head, *_list_pages(config.nav)]
    (site / "llms.txt").write_text("\n".join(listed).rstrip() + "\n", "utf-8")
    ordered = [path for path in _paths(config.nav) if path in _PAGES]
    whole = [head, *(f"<!-- {path} -->\n\n{_PAGES[path][1]}\n" for path in ordered)]
    (site / "llms-full.txt").write_text("\n".join(whole), "utf-8")


def _list_pages(nav: list[Any]) -> list[str]:
    lines = []
    for item in nav:
        ((name, below),) = item.items() if isinstance(item, dict) else (("", item),)
        if isinstance(below, str):
            lines += [_describe(below), ""]
        else:
            lines += [f"## {name}", "", *(_describe(path) for path in _paths(below)), ""]
    return lines


def _describe(path: str) -> str:
    title, text = _PAGES[path]
    return f"- [{title}]({path}): {_find_lead(text)}"


def _find_lead(text: str) -> str:
    """Return the first sentence of a page's first paragraph, as plain words."""
    for block in text.split("\n\n"):
        if block[:1].isalpha() or (block[:1] in "`*[" and not block.startswith("```")):
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(block.split()))
            return re.split(r"(?<=[.:?])\s", words.replace("**", ""))[0]
    return ""


def _paths(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    if isinstance(nav, dict):
        return [path for below in nav.values() for path in _paths(below)]
    return [path for item in nav for path in _paths(item)]
