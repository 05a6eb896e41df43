"""Every public method that may wait has an asynchronous form: the same signature, documented."""

import importlib
import inspect
import pkgutil

import pytest

import langchain_convmem

WAIT_FOR_NOTHING = {
    "ConversationMemory": {"as_of", "conversation", "history", "retriever"} | {"wrap"},
    "ConversationHistory": set(),
    "UserProfile": {"explain", "find", "list_events", "list_kind", "timeline", "to_json"}
    | {"to_markdown"},
    "DialogLineRetriever": {"check_scope"},
    "PromptFile": {"compile", "save", "to_chat_prompt"},
    "SummarizingMemory": {"as_node"},
}
"""Methods without an asynchronous form: they read what is in memory, or a prompt's file."""


def list_public():
    """Yield every public class and function of the package, each once."""
    seen = set()
    for module in pkgutil.walk_packages(langchain_convmem.__path__, "langchain_convmem."):
        if ".testing" in module.name or "__main__" in module.name:
            continue
        try:
            found = importlib.import_module(module.name)
        except ImportError:
            continue  # of an extra that is not installed
        for name, value in vars(found).items():
            is_ours = getattr(value, "__module__", "") == module.name
            if not (is_ours and (inspect.isclass(value) or inspect.isfunction(value))):
                continue
            if not name.startswith("_") and value not in seen:
                seen.add(value)
                yield found, name, value


def list_forms():
    """Yield every (owner, asynchronous form, synchronous form or None) of a name like `aname`."""
    for module, name, value in list_public():
        if inspect.isclass(value):
            for method, form in vars(value).items():
                if is_asynchronous(form) and method.startswith("a") and method[1:] in dir(value):
                    yield f"{name}.{method}", form, getattr(value, method[1:])
        elif is_asynchronous(value) and hasattr(module, name[1:]):
            yield name, value, getattr(module, name[1:])


def is_asynchronous(value):
    return inspect.iscoroutinefunction(value) or inspect.isasyncgenfunction(value)


FORMS = list(list_forms())


def read_signature(function):
    return [
        (one.name, one.kind, one.default)
        for one in inspect.signature(function).parameters.values()
        if one.name != "stopped"  # ends the wait of a thread; a task is cancelled
    ]


@pytest.mark.parametrize(
    ("twin", "method"), [(twin, method) for _, twin, method in FORMS], ids=[n for n, *_ in FORMS]
)
def test_both_forms_take_the_same_and_are_documented(twin, method):
    if isinstance(method, property):
        method = method.fget
    assert read_signature(twin) == read_signature(method)
    told = twin.__doc__ or ""
    assert told or not method.__doc__
    assert "blocks no event loop.\n\n" not in told or inspect.getdoc(method) in told


@pytest.mark.parametrize("name", WAIT_FOR_NOTHING)
def test_what_has_no_asynchronous_form_waits_for_nothing(name):
    [made] = {value for _, known, value in list_public() if known == name}
    methods = {
        method
        for method, form in vars(made).items()
        if inspect.isfunction(form) and not is_asynchronous(form) and not method.startswith("_")
    }
    alone = {method for method in methods if f"a{method}" not in dir(made)}
    assert alone - {"model_post_init"} == WAIT_FOR_NOTHING[name]
