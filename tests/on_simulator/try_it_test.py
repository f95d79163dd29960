# SPDX-License-Identifier: MIT-0
"""The changes that a lesson's page shows print, on the simulator, what LESSON/try_it_output.txt has of them."""

import functools

import pytest

from tests import try_it
from tests.changes import build
from tests.lessons_test import SOURCES, name_of
from vmmsim.built import BUILT

LESSONS = [name_of(source) for source in SOURCES if name_of(source) == source.parent.name]


@pytest.fixture(scope="module")
def program_of(tmp_path_factory):
    """The program of a lesson with all its changes, built when it is first asked for."""

    def built(lesson):
        directory = tmp_path_factory.mktemp("try_it")
        return build(try_it.texts(lesson), directory, try_it.source_of(lesson), "arch=compute_90,code=compute_90")

    return functools.cache(built)


@pytest.mark.parametrize(
    ("lesson", "number"),
    [
        pytest.param(lesson, number, id=f"{lesson}-{title}")
        for lesson in LESSONS
        for number, title in enumerate(try_it.entries(lesson))
    ],
)
def test_each_change_prints_what_is_recorded(program_of, lesson, number):
    title, (_, options) = list(try_it.entries(lesson).items())[number]
    printed = try_it.on_simulator(BUILT["vmmsim"], lesson, program_of(lesson), number, options)
    assert try_it.difference(try_it.sections(lesson)[title], printed) is None, printed


@pytest.mark.parametrize("lesson", LESSONS)
def test_what_is_recorded_is_of_these_changes(lesson):
    assert list(try_it.sections(lesson)) == list(try_it.entries(lesson))


RECORDED = """story
    at {0x7f0000000000}, {{GPU 0}}
vmmsim: cuMemMap(..., {0x7f0000000000}) answers CUDA_ERROR_INVALID_VALUE:
  the rest of it
x.cu:3: failed cuMemMap()
  CUDA_ERROR_INVALID_VALUE (1): invalid argument
-- exit status 1
"""
PRINTED = RECORDED.replace("{{GPU 0}}", "{GPU 0}").replace("{0x7f0000000000}", "0x7e0000000000")


@pytest.mark.parametrize(
    ("old", "new"), [("story", "another"), ("the rest", "no rest"), ("status 1", "status 0"), ("x.cu:3", "x.cu:4")]
)
def test_another_output_is_told(old, new):
    assert try_it.difference(RECORDED, PRINTED) is None
    assert try_it.difference(RECORDED, PRINTED.replace(old, new)) is not None


def test_an_output_is_recorded_with_braces_and_renewed():
    assert try_it.renew("", PRINTED) == RECORDED.replace("7f0", "7e0")
    assert try_it.renew(RECORDED, PRINTED).count("{0x7e0000000000}") == 1  # what vmmsim explains stays as it was
    assert try_it.renew(RECORDED, PRINTED.replace("story", "another")).startswith("another\n")


def test_a_change_takes_out_what_is_there_once():
    assert try_it.changed("a\nb\nc\n", [("b", "x\ny")]) == "a\nx\ny\nc\n"
    assert try_it.changed("a\nb\nc\n", [("a\nb", "")]) == "c\n"
    for text in "a\nbb\n", "a\nb\nb\n":
        with pytest.raises(ValueError, match="not there once"):
            try_it.changed(text, [("b", "x")])
