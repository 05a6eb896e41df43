"""The reference is complete, and what the code says now."""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import click
import pytest
import reference
from stale import find_stale

import langchain_convmem
from langchain_convmem import errors
from langchain_convmem.cli.app import convmem

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_the_written_pages_of_the_reference_are_what_the_code_says_now():
    pytest.importorskip("moto", reason="moto is not installed")
    stale = [path.relative_to(ROOT).as_posix() for path in find_stale(reference.write_pages())]
    assert stale == [], "run make reference"


def public_names():
    """Yield each name of each `__all__` with what it names, found without the generator."""
    names = [langchain_convmem.__name__]
    names += [
        found.name
        for found in pkgutil.walk_packages(langchain_convmem.__path__, "langchain_convmem.")
        if not any(part.startswith("_") or part == "cli" for part in found.name.split("."))
    ]
    for name in names:
        module = importlib.import_module(name)
        for public in getattr(module, "__all__", ()):
            if public != "__version__":
                yield f"{name}.{public}", getattr(module, public)


def documented_things():
    """Return what the directives of the pages document."""
    return [
        pkgutil.resolve_name(path)
        for page in (DOCS / "reference").rglob("*.md")
        for path in re.findall(r"^::: ([\w.]+)", page.read_text("utf-8"), re.MULTILINE)
    ]


def test_every_public_name_is_in_the_reference():
    things = documented_things()
    names = dict(public_names())
    missing = [
        name
        for name, thing in names.items()
        if not any(thing is one for one in things)
        and not issubclass_of(thing, errors.ConvMemError)
        and not is_async_form(name, names)
    ]
    assert len(things) > 60
    assert missing == []


def issubclass_of(thing, base):
    return inspect.isclass(thing) and issubclass(thing, base)


def is_async_form(name, names):
    home, _, last = name.rpartition(".")
    return last.startswith("a") and f"{home}.{last[1:]}" in names


def test_the_list_of_names_leads_to_each_page_and_begins_with_the_memory():
    api = DOCS / "reference" / "api"
    linked = re.findall(
        r"^\| \[`\w+`\]\((\w+\.md)\)", (api / "index.md").read_text("utf-8"), re.MULTILINE
    )
    assert linked[0] == "conversation_memory.md"
    assert sorted([*linked, "errors.md", "index.md"]) == sorted(one.name for one in api.glob("*"))


def test_a_memory_shows_first_what_an_app_begins_with():
    page = (DOCS / "reference" / "api" / "conversation_memory.md").read_text("utf-8")
    assert "members: [open, wrap, recall, history, forget, " in page


def test_an_asynchronous_form_is_one_line_below_its_synchronous_one():
    griffe = pytest.importorskip("griffe", reason="the tools of the documentation are missing")
    import async_forms

    code = '''
class Log:
    def read(self):
        """Read."""

    async def aread(self):
        """Read; see `read`."""

    async def about(self):
        """Stay."""
'''
    extensions = griffe.load_extensions(async_forms.AsyncForms)
    with griffe.temporary_visited_package(
        "zoo", {"__init__.py": code}, extensions=extensions
    ) as zoo:
        log = zoo["Log"]
    assert list(log.members) == ["read", "about"]
    assert log["read"].docstring.value == "Read.\n\nAsync: `aread`, with the same arguments."


def commands_below(group, words):
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands_below(command, f"{words} {name}")
        else:
            yield f"{words} {name}", command


@pytest.mark.parametrize(("words", "command"), [*commands_below(convmem, "convmem")])
def test_every_option_of_a_command_is_in_the_reference(words, command):
    page = (DOCS / "reference" / "commands.md").read_text("utf-8")
    section = page.partition(f"\n## {words}\n")[2].partition("\n## ")[0]
    missing = [
        name
        for option in command.params
        if isinstance(option, click.Option)
        for name in option.opts
        if f"`{name}`" not in section
    ]
    assert section
    assert missing == []


def test_every_error_is_in_the_table_of_errors_and_has_its_fix_on_the_page_of_troubles():
    classes = [
        name for name, thing in vars(errors).items() if issubclass_of(thing, errors.ConvMemError)
    ]
    page = (DOCS / "reference" / "api" / "errors.md").read_text("utf-8")
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == classes
    page = (DOCS / "how_to" / "troubleshoot.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+Error)` \| (.+) \|$", page, re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted(classes)
    assert [name for name, fix in rows if len(fix.split()) < 8] == []


@pytest.mark.parametrize(("heading", "use", "settings"), reference.list_settings())
def test_every_setting_is_described_with_its_default(heading, use, settings):
    page = (DOCS / "reference" / "settings.md").read_text("utf-8")
    section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (\S.*?) \| (\S.*?) \| (.*?)\|$", section, re.MULTILINE)
    assert use in section
    assert [row[0] for row in rows] == list(inspect.signature(settings).parameters)


def test_what_a_setting_costs_is_said_of_settings_that_there_are():
    known = {
        f"{settings.__name__}.{name}"
        for _, _, settings in reference.list_settings()
        for name in inspect.signature(settings).parameters
    }
    assert set(reference.COSTS) <= known
