# SPDX-License-Identifier: MIT-0
"""The lessons as notebooks.

Their form: valid for nbformat, each time the same bytes, links that lead somewhere, nothing of the page left out, no
output. And each executed from top to bottom, in a directory of its own, in a kernel that has nothing of the project:
each call by hand is drawn, each that is refused is explained, and all of that is folded. What is executed uses a copy
of this checkout for which the build tree stands as its build, so that the set-up finds all done; with the packages that
the first cell brings, and no others. notebooks_in_jupyterlab_test.py executes them in JupyterLab.
"""

import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import pytest

from docs.tools import notebooks
from docs.tools.notebooks import cells_by_hand
from scripts.lessons import lessons, on_simulator, program_config
from scripts.transcript import expectations, pair
from tests.machines import ROOT, copy_checkout, expect, need_index, run
from tests.run_program import changed, fail
from vmmsim.built import BUILT
from vmmsim.testing.browser import skip

try:
    import nbformat
    from bs4 import BeautifulSoup
    from markdown_it import MarkdownIt
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError
except ImportError as missing:
    skip(f"{missing.name} is not installed for this Python; ./test.sh gets it")

SECONDS = 120  # for a cell
# What a cell by hand does that changes what is drawn.
CHANGES = re.compile(
    r"cuMem(Create|AddressReserve|AddressFree|Map|SetAccess|Unmap|Release|Import\w+)\(|"
    r"cuMulticast(?!GetG)\w+\(|map_for\(|^(grow|shrink)\(",
    re.MULTILINE,
)


def generated(to, *words):
    """The texts of the notebooks, by lesson."""
    command = [sys.executable, "-B", "-m", "docs.tools.notebooks", "--to", to, *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return {path.stem: path.read_bytes().decode() for path in sorted(to.glob("*.ipynb"))}


def sources(notebook, kind):
    return [cell.source for cell in notebook.cells if cell.cell_type == kind]


# --- Form


WEB = "--repository", "https://example.org/vmm", "--release", "v1"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """By where they lead: the texts of the notebooks."""
    directory = tmp_path_factory.mktemp("notebooks")
    return {
        "https://example.org/vmm/blob/v1/": generated(directory / "web", *WEB),
        "cuda_vmm_by_example/": generated(directory / "local", "--repository", ""),
    }


def test_each_lesson_has_one_and_again_the_same(made, tmp_path):
    (first, _) = made.values()
    assert list(first) == lessons()
    assert first == generated(tmp_path / "again", *WEB)


def test_none_has_a_path_of_this_machine(made):
    for text in made["cuda_vmm_by_example/"].values():
        assert str(ROOT) not in text
        assert str(pathlib.Path.home()) + "/" not in text


@pytest.mark.parametrize("lesson", lessons())
def test_it_has_the_form_of_a_notebook(made, lesson):
    page = (ROOT / lesson / "README.md").read_text()
    for base, texts in made.items():
        notebook = nbformat.reads(texts[lesson], as_version=4)
        check_texts(lesson, page, "\n\n".join(sources(notebook, "markdown")), base)
    notebook = nbformat.reads(made["https://example.org/vmm/blob/v1/"][lesson], as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.outputs or cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
    check_code(lesson, sources(notebook, "code"))
    check_highlighted(lesson, notebook.cells)
    check_code_of_questions(lesson, notebook.cells)


def check_texts(lesson, page, text, base):
    """All of the page is there, except what fits a page alone; links and pictures lead somewhere from anywhere."""
    headings = re.findall(r"^#+ .*$", re.sub(r"^```[\s\S]*?^```$", "", page, flags=re.MULTILINE), re.MULTILINE)
    missing = [heading for heading in headings if f"\n{heading}\n" not in f"\n{text}\n"]
    if missing:
        fail(f"{lesson}: {missing[0]} is not there")
    for block in re.findall(r"^ *```(?:cuda|cpp|console|diff)\n[\s\S]*?^ *```$", page, re.MULTILINE):
        if re.sub("```(?:cuda|cpp)$", "```c++", block, count=1, flags=re.MULTILINE) not in text:
            fail(f"{lesson}: a block is not there:\n{block}")
    of_page = "this page", "build it by hand", "built by hand", "./run.sh --view", "<!--", "try_it.md"
    for word in (*of_page, "`build/bin/vmm_basics_broken"):
        if word in re.sub(r"`cuda_vmm_by_example/run.sh.*?`", "", text):
            fail(f"{lesson}: {word!r} is there, which fits a page alone")
    soup = BeautifulSoup(MarkdownIt("commonmark").enable("table").render(text), "html.parser")
    pictures = soup.find_all("img")
    book = re.sub(r"<!-- forge -->[\s\S]*?<!-- /forge -->", "", page)
    if len(pictures) != len(re.findall(r"!\[[^]]*\]\(", book)):
        fail(f"{lesson}: {len(pictures)} pictures")
    for picture in pictures:
        if not picture["src"].startswith("data:image/svg+xml;base64,") or len(picture["alt"]) < 20:
            fail(f"{lesson}: {str(picture)[:100]}")
    for link in soup.find_all("a"):
        path, _, place = link["href"].partition("#")
        if path.startswith(base):
            target = ROOT / path.removeprefix(base)
            if not target.is_file():
                fail(f"{lesson}: {link} leads nowhere")
            if lines := re.fullmatch(r"L(\d+)-L(\d+)", place):
                check_part(lesson, target.read_text().splitlines(), int(lines[1]), int(lines[2]))
        elif not path.startswith("https://") or path.startswith("https://example.org"):
            fail(f"{lesson}: {link} leads nowhere from a notebook")
    sections = re.split(r"^##+ ", page, flags=re.MULTILINE)
    steps = sum(re.search(rf"^<!-- listing: {lesson[3:]}\.cu \[\d+\]", text, re.M) is not None for text in sections)
    if not steps or len(soup.find_all("a", href=re.compile("#L"))) != steps:
        fail(f"{lesson}: not every step has a link to its part of the program")


def check_part(lesson, lines, first, last):
    """From the banner of a step to the last line before the next one, or before the end."""
    banner = re.compile(r" *step\(\"\[\d+\] ")
    if not banner.match(lines[first - 1]):
        fail(f"{lesson}: line {first} is no banner")
    part, after = lines[first:last], "\n".join(lines[last:]).lstrip()
    if any(map(banner.match, part)) or not (banner.match(after) or re.match(r'std::puts\("OK|return 0;|}', after)):
        fail(f"{lesson}: lines {first} to {last} are not the part of one step")


def check_code(lesson, cells):
    """Cells fail with their commands; the first sets up; the program and each starter are there to the letter."""
    for part in '"https://example.org/vmm"', '"--branch=v1"', '"notebook.sh"', "\n%reload_ext vmmsim\n", "\n%vmm fold":
        if part not in cells[0]:
            fail(f"{lesson}: the first code cell does not set up, {part} is missing:\n{cells[0]}")
    by_hand = cells_by_hand(ROOT / lesson / "notebook.py")
    steps = re.findall(r"^## \[(\d+)\] ", (ROOT / lesson / "README.md").read_text(), re.MULTILINE)
    if sorted(by_hand) != list(range(len(steps) + 1)) or not all(by_hand[step][0][0] for step in by_hand if step):
        fail(f"{lesson}: a step has nothing to do by hand, or begins without a question")
    codes = [code for step in sorted(by_hand) for _, code, _ in by_hand[step]]
    if cells[1 : 1 + len(codes)] != codes:
        fail(f"{lesson}: the calls by hand are not there, one after the other")
    for cell in cells[1 + len(codes) :]:
        if not cell.startswith(("%%bash\nset -euo pipefail\ncd mine\n", "%%writefile mine/")):
            fail(f"{lesson}: a cell that cannot fail, or of another kind:\n{cell}")
    written = dict(cell.removeprefix("%%writefile mine/").split("\n", 1) for cell in cells if cell[:6] == "%%writ")
    files = [ROOT / lesson / f"{lesson[3:]}.cu", *sorted((ROOT / "labs" / "starters").glob(f"{lesson[:2]}?_*.cu"))]
    if written != {file.name: file.read_text().rstrip("\n") for file in files}:
        fail(f"{lesson}: the cells write {', '.join(written)}")
    judged = re.findall(r"^LABS_MINE=\. \S*/lab\.sh (\w+) ", "\n".join(cells), re.MULTILINE)
    if judged != [file.name[:3] for file in files[1:]]:
        fail(f"{lesson}: the cells judge {', '.join(judged)}")


def check_highlighted(lesson, cells):
    """No application highlights C++ in a cell of code: it stands in the text before, and its cell is folded."""
    for index, cell in enumerate(cells):
        if re.search("^ *```(?!c\\+\\+$|console$|diff$|python$|sh$|$)", cell.source, re.MULTILINE):
            fail(f"{lesson}: not every application knows the language of\n{cell.source}")
        if cell.source.startswith("%%writefile "):
            code = cell.source.partition("\n")[2]
            if cells[index - 1].source != f"```c++\n{code}\n```" or not cell.metadata.jupyter.source_hidden:
                fail(f"{lesson}: not shown in the text before, or not folded:\n{cell.source}")


def check_code_of_questions(lesson, cells):
    """Functions that a question names in place of their code stand right before the cell that uses them."""
    for question, code, _ in (cell for step in cells_by_hand(ROOT / lesson / "notebook.py").values() for cell in step):
        at = next(index for index, cell in enumerate(cells) if cell.source == code)
        for names in re.findall(r"^<!-- listing: \S+ (.*) -->$", question, re.MULTILINE):
            for name in names.split(", "):
                if not re.search(rf"^\w.* {name}\(", cells[at - 1].source, re.MULTILINE):
                    fail(f"{lesson}: {name} is not shown before\n{code}")


@pytest.mark.parametrize(
    ("origin", "address"),
    [
        ("https://example.org/vmm.git", "https://example.org/vmm"),
        ("https://someone:secret@example.org/vmm", "https://example.org/vmm"),
        ("git@example.org:some/vmm.git", "https://example.org/some/vmm"),
        ("ssh://git@example.org/some/vmm.git", "https://example.org/some/vmm"),
        ("/srv/vmm", None),
    ],
)
def test_the_address_has_the_form_of_its_forge(origin, address, monkeypatch, tmp_path):
    """What the notebooks have for the address from which a checkout was cloned; none, for one of no forge."""
    monkeypatch.setattr(notebooks, "ROOT", tmp_path)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run(["git", "-C", tmp_path, "config", "remote.origin.url", origin], check=True)
    assert notebooks.address_of_clone() == (address or "")


def test_without_a_project_the_first_cell_says_what_to_do(made, tmp_path, monkeypatch):
    monkeypatch.delenv("VMM_REPOSITORY", raising=False)
    monkeypatch.chdir(tmp_path)
    notebook = nbformat.reads(made["cuda_vmm_by_example/"]["01_vmm_basics"], as_version=4)
    with pytest.raises(AssertionError, match="set VMM_REPOSITORY to the project's address"):
        exec(sources(notebook, "code")[0].partition("\n%")[0], {})
    assert list(tmp_path.iterdir()) == []


# --- Execution

PACKAGES = ROOT / "vmmsim" / "requirements-notebooks.txt"
PACKAGES_OF_LABS = ROOT / "labs/requirements.txt"


def environment():
    """A checkout's directory with the .venv of a machine on which only the first cell of a notebook was run."""
    return pathlib.Path(BUILT["build"]) / "environment_of_notebooks"


def test_environment():
    """It is made as the set-up makes it, and holds what the file names, no more."""
    place = environment()
    if not (place / ".venv").exists():
        need_index()
    files = [file.relative_to(ROOT) for file in (PACKAGES, PACKAGES_OF_LABS)]
    for name in *files, "scripts/setup.sh", "vmmsim/setup.sh":
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, place / name)
    # What is imported is compiled then: of what is installed that is little.
    steps = 'export PIP_NO_COMPILE=1; source scripts/setup.sh; check_machine; check_venv; get_packages venv; fetch "$@"'
    made = run(place, "bash", "-euc", steps, "set-up", *files)
    expect(made.returncode == 0, "the set-up", made)
    told = run(place, ".venv/bin/python3", "-I", "-m", "pip", "list", "--format=json")
    installed = {(plain(each["name"]), each["version"]) for each in json.loads(told.stdout)}
    installed = {each for each in installed if each[0] not in ("pip", "setuptools")}
    lines = [line for file in (PACKAGES, PACKAGES_OF_LABS) for line in file.read_text().splitlines()]
    named = {tuple(line.split("==")) for line in lines if line[0] != "#"}
    assert installed == {(plain(name), version) for name, version in named}


def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


@contextlib.contextmanager
def set_up_checkout(build):
    """A checkout in which the set-up has been done: its build is that one. A path with a space."""
    if not (environment() / ".venv").exists():
        skip("no index of packages could be reached: see the test docs.notebooks.environment")
    with tempfile.TemporaryDirectory(prefix="notebook ") as scratch:
        checkout = copy_checkout(pathlib.Path(scratch) / "check out")
        (checkout / ".venv").symlink_to(environment() / ".venv")
        (checkout / "build").mkdir()
        for name in "bin", "vmmsim":
            (checkout / "build" / name).symlink_to(build / name)
        found = re.findall(r"^CMAKE_CUDA_COMPILER:.*$", (build / "CMakeCache.txt").read_text(), re.M)
        about = [f"CMAKE_HOME_DIRECTORY:INTERNAL={checkout}", *found]
        (checkout / "build" / "CMakeCache.txt").write_text("\n".join(about) + "\n")
        (checkout / "build" / "simulator_is_ready").touch()
        yield pathlib.Path(scratch), checkout


def without_most_labs(notebook):
    """Of the cells that judge a lab the first of lesson 01 runs; labs.* judge them all."""
    labs = [cell for cell in notebook.cells if "/lab.sh " in cell.source and cell.cell_type == "code"]
    labs = [cell for cell in labs if "/lab.sh 01a " not in cell.source]
    notebook.cells = [cell for cell in notebook.cells if cell not in labs]
    return notebook


def executed(notebook, directory):
    """A cell that fails fails the test."""
    at = {"metadata": {"path": str(directory)}}
    client = NotebookClient(notebook, timeout=SECONDS, resources=at, extra_arguments=["--log-level=40"])
    try:
        client.execute()
    except CellExecutionError as error:
        fail(f"a cell failed: {error}")
    return notebook


def with_output(notebook):
    """The cells with what they wrote: (source, stdout, everything, the outputs)."""
    cells = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            texts = [(output.get("name"), output.get("text", "")) for output in cell.outputs]
            out = "".join(text for name, text in texts if name == "stdout")
            cells.append((cell.source, out, "".join(text for _, text in texts), cell.outputs))
    return cells


def the_cell(cells, words):
    found = [cell for cell in cells if words in cell[0]]
    if len(found) != 1:
        fail(f"{len(found)} cells have {words!r}")
    return found[0]


def check_by_hand(lesson, cells):
    for step, its in cells_by_hand(ROOT / lesson / "notebook.py").items():
        for question, code, is_refused in its:
            *_, outputs = next(cell for cell in cells if cell[0] == code)
            shown = "".join(output.get("data", {}).get("text/html", "") for output in outputs)
            if len(outputs) > 1 or len(outputs) == 1 and not shown.startswith("<details style"):
                fail(f"{lesson} [{step}]: the answer is not folded after\n{code}\n{outputs}")
            if is_refused != ("border-left" in shown):
                fail(f"{lesson} [{step}]: {'not ' * is_refused}refused and explained:\n{code}\n{outputs}")
            if CHANGES.search(code) and not is_refused and "image/svg+xml" not in shown:
                fail(f"{lesson} [{step}]: there is no picture after\n{code}\n{outputs}")
            if "CUDA_ERROR_ILLEGAL_ADDRESS" in shown and "first cell" not in question:
                fail(f"{lesson} [{step}]: nobody is warned of the fault of\n{code}")
            if "Left out" in shown or "too much" in shown or "There is no picture" in shown:
                fail(f"{lesson} [{step}]: it is not all in the picture after\n{code}")


def hold(expected, output, gpus):
    if wrong := pair(expectations(expected), output, gpus)[1]:
        fail(f"{wrong}\n{output}")


def check_executed(lesson, notebook, work):
    """What the cells have shown, and what is beside the notebook after it."""
    name, directory, cells = lesson[3:], ROOT / lesson, with_output(notebook)
    beside = {path.name for path in work.iterdir() if path.suffix != ".ipynb" and path.name[0] != "."}
    if beside != {"cuda_vmm_by_example", "mine"}:
        fail(f"beside the notebook: {beside}")
    if (work / "mine" / f"{name}.cu").read_bytes() != (directory / f"{name}.cu").read_bytes():
        fail(f"{name}.cu was not written as it is")
    told = the_cell(cells, "run_lessons")[1]
    words = re.escape(" ".join([lesson, *on_simulator(name)]))
    shown = re.search(rf"^== {words}, 8 simulated GPUs ==\n([\s\S]*)\n\nlesson .*\n{lesson} .* OK  ", told, re.M)
    if not told.startswith("No GPU here: ") or not shown:
        fail(f"it does not say where it ran, or did not work:\n{told}")
    expected = directory / "expected_output.txt"
    hold(changed(expected, program_config(name).get("changes", {})), shown[1] + "\n", 8)

    for program in sorted({name for cell in cells for name in re.findall(r"/vmmsim .*\./(\w+) 2>&1", cell[0])}):
        source, _, told, _ = the_cell(cells, f" ./{program} 2>&1")
        lines = [line for line in told.splitlines() if not line.startswith("vmmsim: ")]
        expected = (directory / f"{program}_expected_output.txt").read_text()
        gpus = int((re.search(r"--gpus (\d+)", source) or [0, 8])[1])
        runs = source.count("/vmmsim ")
        if runs == 1:
            hold(expected, "\n".join(lines) + "\n", gpus)
        if "--explain" in source and "vmmsim: " not in told:
            fail(f"{program}: nothing is explained\n{told}")
    for number in re.findall(r"/lab\.sh (\w+) \|\|", "".join(cell[0] for cell in cells)):
        _, told, everything, _ = the_cell(cells, f"/lab.sh {number} ||")
        if not re.search(rf"^{number} .*: not yet$", told, re.MULTILINE):
            fail(f"lab {number} is not judged:\n{everything}")
    check_by_hand(lesson, cells)


@contextlib.contextmanager
def place_of(lesson, monkeypatch):
    """The notebook, to be executed, and an empty directory in which that is done."""
    with set_up_checkout(pathlib.Path(BUILT["build"])) as (scratch, checkout):
        work, settings = scratch / "work", scratch / "settings"
        work.mkdir()
        for variable in "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR":
            monkeypatch.setenv(variable, str(settings))
        monkeypatch.setenv("VMM_REPOSITORY", str(checkout))
        monkeypatch.setenv("LD_LIBRARY_PATH", BUILT["stub_directory"])
        text = generated(scratch / "notebooks", "--repository", "")[lesson]
        yield without_most_labs(nbformat.reads(text, as_version=4)), work


@pytest.mark.parametrize("lesson", lessons())
def test_it_can_be_executed(lesson, monkeypatch):
    with place_of(lesson, monkeypatch) as (notebook, work):
        check_executed(lesson, executed(notebook, work), work)
