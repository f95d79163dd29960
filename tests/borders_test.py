# SPDX-License-Identifier: MIT-0
"""What of the tool the lessons' side imports is what the tool names for everybody; and the tool imports nothing of it,
and has all that it ships.

    borders_test.py

The interface are the names in __all__ of these packages, all of these modules, and in CMake what vmmsim/cmake defines.
Tests may take the tool's helpers of tests as well. Python and CMake name no file of the tool but those of FILES. The
tool's C++ includes no file from beside it, and its pages lead to none.
"""

import ast
import importlib
import inspect
import re

from tests.machines import ROOT

PACKAGES = {name: importlib.import_module(name).__all__ for name in ("vmmsim.trace", "vmmsim.view")}
MODULES = "vmmsim.built", "vmmsim.hardware", "vmmsim.processes", "vmmsim.tool"
OF_TESTS = (
    "vmmsim.tests",
    "vmmsim.tests.browser",
    "vmmsim.tests.recorded_names",
    "vmmsim.tests.sample",
)
# What CMake defines: a function, a target. Of the tool's targets the book takes the first, and tests the others.
DEFINED = re.compile(
    r"^ *(?:function|macro|add_(?:library|executable|custom_target)|(?:test|component)_program)\((?!vmmsim::)(\w+)",
    re.M,
)
USED = re.compile(r"^ *(\w+)\(|\b(?:TARGET(?:_\w+:)? ?|COMMAND )(\w+\b)(?!::)", re.M)
TARGETS = "web", "ptx_test", "multicast_access"
OURS = "docs", "labs", "scripts", "tests"
# Its files that the lessons' side reads or copies: pages, licences, a view's style, the questions to hardware, tests by
# name; and whole components.
FILES = re.compile(
    r"vmmsim/(docs\b|([*\w]+/)?README\.md|(tests/)?[*\w]+_test\.py|view/view\.css|LICENSE"
    r"|(trace|view|tests|tests/conformance)$|tests/conformance/)"
)
PATH = re.compile(r"(?<![\w/.])(?:\.\./)*(vmmsim/[\w./*{}-]+)")


def imports(text):
    """Of a program of Python: (line, module, name or None), for each name."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from ((node.lineno, node.module, alias.name) for alias in node.names)


def wrong_in_lessons(text, is_test=False):
    """The imports of the tool that are not of its interface."""
    for line, module, name in imports(text):
        if module.partition(".")[0] == "vmmsim" and name not in PACKAGES.get(module, ()):
            if not name or module not in MODULES + OF_TESTS * is_test:
                yield line, f"{module}: {name}"


def wrong_in_tool(text):
    """The imports of the lessons' side."""
    for line, module, name in imports(text):
        if module.partition(".")[0] in OURS:
            yield line, f"{module}: {name}"


def text_of(node):
    """A path that a program of Python writes, as a text or as ROOT / "vmmsim" / "docs"; * for what is no text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text_of, node.values))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return f"{text_of(node.left)}/{text_of(node.right)}".removeprefix("*/")
    return "*"


def paths_in_python(text):
    """(line, path) of each path into the tool that is no word of a docstring."""
    nodes = list(ast.walk(ast.parse(text)))
    skipped = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    skipped |= {id(node.left) for node in nodes if isinstance(node, ast.BinOp)}  # part of a path
    for node in nodes:
        if id(node) not in skipped:
            yield from ((node.lineno, path) for path in PATH.findall(text_of(node)))


def paths_in_cmake(text):
    for number, line in enumerate(text.splitlines(), 1):
        line = line.partition("#")[0].replace("${PROJECT_SOURCE_DIR}/", "")
        yield from ((number, path) for path in PATH.findall(line))


def cmake_of(*directories):
    """The files, and their texts without comments."""
    for directory in directories:
        for kind in "*.cmake", "CMakeLists.txt":
            yield from ((file, re.sub("#.*", "", file.read_text())) for file in directory.rglob(kind))


def inside_of_the_tool():
    """What its CMake defines for itself alone."""
    cmake = ROOT / "vmmsim" / "cmake"
    return {name for file, text in cmake_of(ROOT / "vmmsim") if file.parent != cmake for name in DEFINED.findall(text)}


def wrong_in_cmake(text, inside):
    """What it uses of that."""
    for number, line in enumerate(text.splitlines(), 1):
        words = [word for used in USED.findall(line) for word in used]
        if "add_dependencies(" in line:
            words += re.findall(r"(?<![\w:])\w+(?![\w:])", line)
        yield from ((number, word) for word in words if word in inside and word not in TARGETS)


def wrong_paths(file):
    paths = paths_in_python if file.suffix == ".py" else paths_in_cmake
    return [(line, path) for line, path in paths(file.read_text()) if not FILES.match(path)]


def check(files, wrong):
    files = list(files)
    assert len(files) > 10
    found = [f"{file.relative_to(ROOT)}:{line}: {what}" for file in files for line, what in wrong(file)]
    assert found == []


def test_the_lessons_use_the_interface():
    files = (file for ours in OURS for file in (ROOT / ours).rglob("*.py"))
    check(files, lambda file: wrong_in_lessons(file.read_text(), file.is_relative_to(ROOT / "tests")))


def test_the_lessons_open_no_files_of_its_insides():
    kinds = "*.py", "*.cmake", "CMakeLists.txt"
    files = [file for ours in OURS for kind in kinds for file in (ROOT / ours).rglob(kind)]
    check([ROOT / "CMakeLists.txt", *(file for file in files if file.name != "borders_test.py")], wrong_paths)


def test_the_lessons_build_with_what_the_tool_states():
    inside = inside_of_the_tool()
    assert inside >= {"test_program", "simulator_test", "vmmsim", "simulated_driver", *TARGETS}
    main = ROOT / "CMakeLists.txt"
    files = [(main, main.read_text()), *cmake_of(*(ROOT / ours for ours in OURS))]
    found = [f"{file}:{line}: {what}" for file, text in files for line, what in wrong_in_cmake(text, inside)]
    assert found == []


def test_the_tool_knows_nothing_of_the_lessons():
    check((ROOT / "vmmsim").rglob("*.py"), lambda file: wrong_in_tool(file.read_text()))


def test_the_tool_includes_what_is_its_own():
    def outside(file):
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if name := re.match(r'#include "(\.\./.*)"', line):
                if not (file.parent / name[1]).resolve().is_relative_to(ROOT / "vmmsim"):
                    yield number, name[1]

    check((file for kind in ("cc", "cu", "h") for file in (ROOT / "vmmsim").rglob(f"*.{kind}")), outside)


def links_that_leave(page):
    """(line, target) of each relative link of a page of the tool that leads out of it, or to nothing."""
    for number, line in enumerate(page.read_text().splitlines(), 1):
        for target in re.findall(r"\]\((?!\w+:|#)([^)#]+)", line):
            there = (page.parent / target).resolve()
            if not there.is_relative_to(ROOT / "vmmsim") or not there.exists():
                yield number, target


def test_the_tools_pages_lead_to_its_own():
    check((ROOT / "vmmsim").rglob("*.md"), links_that_leave)


def test_all_that_is_named_is_there():
    for package, names in PACKAGES.items():
        for name in names:
            exec(f"from {package} import {name}", {})


# What else Machine has applies the changes of a line.
METHODS = {"Machine": ("__init__", "line", "since", "forget_since", "end")}


def functions_of(thing):
    """(name, function) of a function, or of what a class has for everybody."""
    if inspect.isfunction(thing):
        yield thing.__name__, thing
    for name, function in vars(thing).items() if inspect.isclass(thing) else ():
        is_public = name in METHODS.get(thing.__name__, [name]) and (name == "__init__" or not name.startswith("_"))
        if is_public and (function := inspect.unwrap(getattr(thing, name))) and inspect.isroutine(function):
            yield f"{thing.__name__}.{name}", function


def untyped(function):
    signature = inspect.signature(function)
    types = [its.annotation for name, its in signature.parameters.items() if name not in ("self", "cls")]
    return inspect.Signature.empty in [*types, signature.return_annotation]


def test_the_interface_has_types():
    things = [
        getattr(importlib.import_module(package), name, None) for package in PACKAGES for name in PACKAGES[package]
    ]
    functions = [each for thing in things for each in functions_of(thing)]
    assert len(functions) > 25
    assert [name for name, function in functions if untyped(function)] == []


def test_the_tool_ships_the_licences():
    for copy, of in ("LICENSE", "MIT-0"), ("vmmsim/LICENSE", "MIT-0"), ("vmmsim/docs/LICENSE", "CC-BY-4.0"):
        assert (ROOT / copy).read_text() == (ROOT / "LICENSES" / f"{of}.txt").read_text(), copy


def test_what_is_refused():
    for text, count in (
        ("from vmmsim.trace import Recording\nfrom vmmsim.trace import members_of", 1),
        ("import vmmsim.trace", 1),  # then all of it could be used
        ("from vmmsim.processes import reap\nfrom vmmsim.view import watch", 0),
        ("def f():\n    from vmmsim.trace.line import number", 1),
        ("from vmmsim.view import Steps", 1),
        ("import vmmsim.view.page", 1),
        ("from vmmsim.tests import sample", 1),
    ):
        assert len(list(wrong_in_lessons(text))) == count, text
    assert list(wrong_in_lessons("from vmmsim.tests import sample", is_test=True)) == []
    assert len(list(wrong_in_tool("from tests.machines import ROOT"))) == 1


def test_what_paths_are_refused(tmp_path):
    for name, text, refused in (
        ("x.cmake", "include(${PROJECT_SOURCE_DIR}/vmmsim/cuda.cmake)", True),
        ("x.cmake", "file(GLOB machines vmmsim/simulator/machines/*.conf)", True),
        ("x.cmake", "add_subdirectory(vmmsim)  # as vmmsim/cuda.cmake", False),
        ("x.cmake", "vmmsim_pytest(it vmmsim/tests/failing_calls_test.py)", False),
        ("x.py", 'open(ROOT / "vmmsim/simulator/driver/error_calls.cc")', True),
        ("x.py", 'open(ROOT / "vmmsim" / "simulator" / "machines")', True),
        ("x.py", 'open(ROOT / f"vmmsim/{name}/line.py")', True),
        ("x.py", 'open(ROOT / "vmmsim" / "docs")', False),
        ("x.py", '"""As vmmsim/trace/line.py has it."""', False),
    ):
        (tmp_path / name).write_text(text)
        assert bool(wrong_paths(tmp_path / name)) == refused, text


def test_what_of_cmake_is_refused():
    inside = {"vmmsim", "test_program", "web"}
    for text, refused in (
        ("  test_program(it it.cu)", True),
        ("if(TARGET vmmsim)", True),
        ("add_test(NAME it COMMAND $<TARGET_FILE:vmmsim> it)", True),
        ("add_dependencies(it vmmsim)", True),
        ("add_test(NAME it COMMAND vmmsim it)", True),
        ("add_subdirectory(vmmsim)", False),
        ("if(TARGET vmmsim::vmmsim)", False),
        ("add_dependencies(it vmmsim::vmmsim web)", False),
        ("vmmsim_test(NAME it COMMAND $<TARGET_FILE:vmmsim::vmmsim>)", False),
    ):
        assert bool(list(wrong_in_cmake(text, inside))) == refused, text
