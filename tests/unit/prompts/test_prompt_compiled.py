import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.errors import ConfigError, PromptSyntaxError
from langchain_convmem.prompts import PromptFile
from langchain_convmem.prompts.compiled import read_compiled

FUNCTIONS = {"dayName": lambda: "Friday"}
TEXT = """\
__* Meta *__
- version = 2
__* Const *__
- who = Ánna 😀
__* Var *__
- day = dayName
__ Role __
You serve {{who}} on {{day}}, {{nobody}}.
__ Rules __
Be kind.
"""


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "desk.prompt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def load(path, **options):
    return PromptFile.load(path, functions=FUNCTIONS, **{"strict": False, **options})


def compiled_at(source, suffix):
    path = source.with_suffix(suffix)
    load(source).save(path)
    return path


@pytest.mark.parametrize("suffix", [".json", ".bytes"])
class TestBothForms:
    def test_a_compiled_file_says_what_its_source_says(self, source, suffix):
        path = compiled_at(source, suffix)
        loaded, parsed = load(path), load(source)
        assert loaded == parsed
        assert loaded.name == str(path)
        assert loaded.source == parsed.source
        assert loaded.render() == parsed.render()

    def test_a_changed_source_beside_it_is_noticed(self, source, suffix):
        path = compiled_at(source, suffix)
        assert not any("changed" in found.message for found in load(path, strict=True).diagnostics)
        source.write_text(TEXT + "More.\n", encoding="utf-8")
        stale = load(path).diagnostics[0]
        assert (stale.level, stale.line) == ("warning", 1)
        assert "'desk.prompt' beside it has changed" in stale.message
        with pytest.raises(PromptSyntaxError, match="compile it again"):
            load(path, strict=True)

    def test_a_function_that_is_not_there_any_more_is_an_error(self, source, suffix):
        path = compiled_at(source, suffix)
        found = PromptFile.load(path, strict=False).diagnostics
        assert "there is no function 'dayName'" in found[0].message
        with pytest.raises(PromptSyntaxError, match="dayName"):
            PromptFile.load(path, strict=True)

    def test_a_file_over_the_limit_is_refused(self, source, suffix):
        source.write_text("__ A __\n" + "x" * 5000, encoding="utf-8")
        path = compiled_at(source, suffix)
        assert load(path, max_bytes=200).sections
        with pytest.raises(PromptSyntaxError, match="max_bytes="):
            load(path, max_bytes=150)

    def test_text_that_no_file_holds_survives(self, tmp_path, suffix):
        path = tmp_path / f"a{suffix}"
        prompt = PromptFile.parse("__ A __\nx\ud800\x00y")
        prompt.save(path)
        assert PromptFile.load(path) == prompt

    def test_nothing_is_left_behind_when_it_cannot_be_written(self, source, suffix):
        path = source.with_suffix(suffix)
        path.mkdir()
        with pytest.raises(OSError, match=path.name):
            load(source).save(path)
        assert sorted(one.name for one in source.parent.iterdir()) == sorted(
            [source.name, path.name]
        )


@given(st.binary(max_size=40), st.integers(0, 400), st.integers(0, 400))
def test_damage_is_our_error_or_changes_nothing(junk, start, end):
    prompt = PromptFile.parse(TEXT, functions=FUNCTIONS, strict=False)
    whole = prompt.compile("binary")
    damaged = whole[: 8 + start] + junk + whole[8 + end :]
    try:
        found = read_compiled(damaged, "desk.bytes", max_bytes=10_000)
    except PromptSyntaxError as error:
        assert error.path == "desk.bytes"  # noqa: PT017 - either outcome is fine
    else:
        assert found is not None
        assert found[0].sections == prompt.sections


MAGIC = b"\x89convmem"
GOOD = {
    "format": "langchain-convmem prompt",
    "version": 1,
    "prompts": {"A": "x {{t}} y"},
    "variables": {"A": [{"functionName": "f", "indexStart": 2, "indexEnd": 7}]},
}


def changed(**values):
    return json.dumps({**GOOD, **values}).encode()


def place(start, end=7):
    return {"functionName": "f", "indexStart": start, "indexEnd": end}


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.bytes", MAGIC, "end where it should"),
        ("a.bytes", MAGIC[:4], "cut off"),
        ("a.bytes", b"{}", "another program"),
        ("a.bytes", MAGIC + b"no zlib", "damaged"),
        ("a.bytes", MAGIC + zlib.compress(b"{}")[:-1], "end where it should"),
        ("a.bytes", MAGIC + zlib.compress(b"{}") + b"x", "end where it should"),
        ("a.bytes", MAGIC + zlib.compress(b" " * 10_000_000), "unpacks to more"),
        ("a.bytes", MAGIC + zlib.compress(b"\xff"), "decode"),
        ("a.json", b"", "compile its source again"),
        ("a.json", b"[" * 100_000, "recursion"),
        ("a.json", b"null", "compile its source again"),
        ("a.json", b'{"prompts": {"A": "x"}}', "format"),
        ("a.json", changed(format="other"), "format"),
        ("a.json", changed(version=7), "version"),
        ("a.json", changed(prompts={"A": 1}), "prompts"),
        ("a.json", changed(source="x"), "source"),
        ("a.json", changed(variables={"B": [place(2)]}), "2 to 7 of 'B'"),
        ("a.json", changed(variables={"A": {}}), "variables.A"),
        ("a.json", changed(variables={"A": [place(True)]}), "indexStart"),
        ("a.json", changed(variables={"A": [place(3)]}), "3 to 7"),
        ("a.json", changed(variables={"A": [place(-7)]}), "-7 to 7"),
        ("a.json", changed(variables={"A": [place(2)] * 2}), "2 to 7"),
    ],
)
def test_a_damaged_file_tells_what_is_wrong(tmp_path, name, data, reason):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(PromptSyntaxError, match=reason) as caught:
        PromptFile.load(path, max_bytes=10_000)
    assert str(caught.value).startswith(f"{path}: this is not a readable compiled prompt")


class TestPlaces:
    @pytest.mark.parametrize("name", ["desk.prompt", "desk", "desk.bin"])
    def test_saving_never_takes_a_name_that_may_be_a_sources(self, source, name):
        with pytest.raises(ConfigError, match=r"\.json \(json\) or \.bytes \(binary\)"):
            load(source).save(source.with_name(name))
        with pytest.raises(ConfigError, match=r"'json' or 'binary', got 'bytes'"):
            load(source).compile("bytes")
        assert source.read_text("utf-8") == TEXT

    def test_a_source_name_that_leads_elsewhere_is_not_followed(self, tmp_path):
        folder = tmp_path / "inner"
        folder.mkdir()
        (tmp_path / "secret").write_text("x", encoding="utf-8")
        for name in ("../secret", str(tmp_path / "secret"), "..", ""):
            content = {**GOOD, "source": {"name": name, "sha256": "0" * 64}}
            path = folder / "a.json"
            path.write_text(json.dumps(content), encoding="utf-8")
            found = PromptFile.load(path, functions={"f": lambda: ""}).diagnostics
            assert found == ()
