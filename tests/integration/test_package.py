"""The wheel, installed into an empty environment, runs the README's first example."""

import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from pages import THEIRS, blocks_of, without_a_key

pytestmark = [pytest.mark.package, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]


def sh(*command, cwd=None):
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("dist")
    sh(sys.executable, "-m", "build", "--wheel", "--outdir", out, ROOT)
    [built] = out.glob("*.whl")
    return built


def lowest_versions():
    """Every direct dependency, pinned to the lower bound that pyproject.toml allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pins = []
    for requirement in project["dependencies"]:
        name, lower = re.fullmatch(r"([\w.-]+)[>=]=([\w.]+)(?:,<.*)?", requirement).groups()
        pins.append(f"{name}=={lower}")
    return pins


@pytest.mark.parametrize("versions", ["lowest", "newest"])
def test_the_readme_example_runs_in_an_empty_environment(versions, wheel, tmp_path):
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    pins = lowest_versions() if versions == "lowest" else []
    sh(python, "-m", "pip", "install", "--quiet", wheel, *pins)
    shown = next(block for block in blocks_of(ROOT / "README.md") if block.language == THEIRS)
    (tmp_path / "example.py").write_text(without_a_key(shown.code), "utf-8")
    # The lowest faiss asks the lowest NumPy by a name of its own that is on its way out.
    quiet = ("-W", "error", "-W", "ignore:numpy.core:DeprecationWarning")
    printed = sh(python, *quiet, "example.py", cwd=tmp_path)
    assert "level C, next to the blue pillar" in printed
    installed = sh(python, "-m", "pip", "list", "--format=freeze")
    for pin in pins:
        name, version = pin.split("==")
        found = re.search(rf"^{re.escape(name)}==(.*)$", installed, re.MULTILINE | re.IGNORECASE)
        assert found, name
        assert re.fullmatch(rf"{re.escape(version)}(\.0|\.post\d+)*", found.group(1)), pin
    told = subprocess.run(
        [python.with_name("convmem"), "threads"], capture_output=True, text=True, check=False
    )
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr.endswith("pip install 'langchain-convmem[cli]'\n")


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    names = sh(sys.executable, "-m", "zipfile", "-l", wheel)
    tops = set(re.findall(r"^([\w.-]+)/", names, re.MULTILINE))
    assert tops == {"langchain_convmem"} | {top for top in tops if top.endswith(".dist-info")}
    assert "langchain_convmem/py.typed" in names
    assert "licenses/NOTICE" in names


def test_the_page_on_the_index_links_to_nothing_that_is_not_there(wheel):
    with zipfile.ZipFile(wheel) as opened:
        [name] = [one for one in opened.namelist() if one.endswith(".dist-info/METADATA")]
        page = opened.read(name).decode().partition("\n\n")[2]
    links = re.findall(r"\]\(([^)]*)\)", page)
    assert "memory.wrap(" in page
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
