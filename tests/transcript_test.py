# SPDX-License-Identifier: MIT-0
"""The matcher itself: what it lets pass, and above all what it does not."""

import pathlib
import re

from scripts.transcript import as_printed, expectations, pair, record

EXPECTED = """\
# Recorded: nowhere
[1] Ask
    {NVIDIA H200}: supported
    {GPU 0} to {GPU 1}: rank {0}, {yes|no}
    {GPU 1} to {GPU 0}: rank {0}, {yes|no}
    {size=2048} KiB, half of it {size/2=1024}, on {gpus=2} GPUs
    at {0x302000000}, {2.5} ms, {12} of 12
    from {0x302000000} to {0x402000000}: {{all {size=2048} of it}}, {cudaErrorIllegalAddress}
    peers: {gpu=0}, up to {GPU 0}
    peers: {gpu=1}, up to {GPU 1}
OK
"""
OUTPUT = """\
[1] Ask
    NVIDIA A100: supported
    GPU 0 to GPU 1: rank 1, no
    GPU 1 to GPU 0: rank 2, yes
    64 KiB, half of it 32, on 2 GPUs
    at 0x7f00, 31.0 ms, 9 of 12
    from 0x7f00 to 0x8000: {all 64 of it}, cudaSuccess
    peers: 0, up to GPU 0
    peers: 1, up to GPU 1
OK
"""


def difference(output, gpus=None):
    return pair(expectations(EXPECTED), output, gpus)[1]


def of_gpus(count, output=OUTPUT):
    """The output with this many GPUs."""
    pairs = [(one, other) for one in range(count) for other in range(count) if one != other]
    lines = [line for line in output.splitlines() if "GPU " not in line]
    lines[2:2] = [f"    GPU {one} to GPU {other}: rank 1, no" for one, other in pairs]
    lines[-1:-1] = [f"    peers: {gpu}, up to GPU {gpu}" for gpu in range(count)]
    return "\n".join(lines).replace("on 2 GPUs", f"on {count} GPUs") + "\n"


def test_each_recording_expects_what_was_printed_then():
    paths = sorted(pathlib.Path(__file__).parents[1].glob("[0-9][0-9]_*/*expected_output.txt"))
    assert len(paths) > 16
    for path in paths:
        text = path.read_text()
        assert pair(expectations(text), as_printed(text))[1] is None, path
        conditions = re.search("^# Recorded: (.*)$", text, re.MULTILINE)[1]
        assert record(text, as_printed(text), conditions) == (text, None), path


def test_values_in_braces_may_differ():
    assert difference(OUTPUT) is None


def test_every_other_change_fails():
    for old, new in [
        ("[1] Ask", "[2] Ask"),
        ("supported", "not supported"),
        ("OK\n", ""),
        ("OK\n", "OK\nmore\n"),
        ("OK", "ok"),
        ("of 12", "of 13"),
        ("0x7f00", "none"),
        ("31.0 ms", "nan ms"),
        ("31.0", "31.00"),
        ("9 of", "1.5 of"),
        ("9 of", "-9 of"),
        ("rank 1", "rank x"),
        ("rank 1, no", "rank 1, nor"),
        ("[1] Ask\n", ""),
        ("    at", "  at"),
        ("NVIDIA A100", ""),
        ("{all", "all"),
        ("    GPU 0 to GPU 1: rank 1, no\n    GPU 1 to GPU 0: rank 2, yes\n", ""),
        ("cudaSuccess", "success"),
    ]:
        assert old in OUTPUT
        assert difference(OUTPUT.replace(old, new)) is not None, (old, new)


def test_only_a_line_of_a_gpu_may_repeat():
    line = "    NVIDIA A100: supported\n"
    assert difference(OUTPUT.replace(line, line + line)) is not None


def test_a_name_is_one_value():
    assert difference(OUTPUT.replace("64", "128").replace("32,", "64,")) is None
    for old, new in [
        ("64 KiB", "66 KiB"),
        ("it 32", "it 33"),
        ("all 64", "all 65"),
        ("on 2", "on 3"),
        ("peers: 1", "peers: 0"),
    ]:
        assert old in OUTPUT
        assert difference(OUTPUT.replace(old, new)) is not None, (old, new)


def test_an_address_is_its_own_name():
    for old, new in [("at 0x7f00", "at 0x7f01"), ("0x8000", "0x7f00"), ("0x7f00", "0x0")]:
        assert old in OUTPUT
        assert difference(OUTPUT.replace(old, new)) is not None, (old, new)


def test_one_line_for_each_gpu_and_for_each_pair():
    for count in 2, 3, 4, 8:
        output = of_gpus(count)
        assert difference(output) is None, output
        assert difference(output, count) is None
        assert difference(output, count + 1) is not None
        for line in [line for line in output.splitlines(keepends=True) if "GPU " in line]:
            assert difference(output.replace(line, "")) is not None, line
            assert difference(output.replace(line, line + line)) is not None, line
    assert difference(OUTPUT.replace("peers: 1, up to GPU 1", "peers: 2, up to GPU 2")) is not None
    assert difference(OUTPUT.replace("GPU 1 to GPU 0", "GPU 1 to GPU 1")) is not None


def test_a_skip_ends_the_output_early_and_nothing_else():
    assert difference("[1] Ask\nSKIP: no; get one\n") is None
    assert difference("SKIP: no; get one\n") is None
    assert difference("[1] Tell\nSKIP: no; get one\n") is not None
    assert difference(OUTPUT[: OUTPUT.index("    GPU 1")] + "SKIP: no; get one\n") is None  # between two GPUs
    assert difference("[1] Ask\n") is not None


def test_a_recorded_file_holds_the_values_and_matches_again():
    renewed, _ = record(EXPECTED, OUTPUT, "here, today")
    assert "# Recorded: here, today\n" in renewed
    assert "nowhere" not in renewed
    assert "    {GPU 0} to {GPU 1}: rank {1}, {no|yes}\n    {GPU 1} to {GPU 0}: rank {2}, {yes|no}\n" in renewed
    assert "{size=64} KiB, half of it {size/2=32}, on {gpus=2} GPUs" in renewed
    assert "at {0x7f00}, {31.0} ms, {9} of 12" in renewed
    assert "from {0x7f00} to {0x8000}: {{all {size=64} of it}}, {cudaSuccess}" in renewed
    assert pair(expectations(renewed), OUTPUT)[1] is None
    assert as_printed(renewed) == OUTPUT
    renewed, _ = record(EXPECTED, of_gpus(3), "here, today")
    assert as_printed(renewed) == of_gpus(3)
    assert as_printed(record(renewed, OUTPUT, "there")[0]) == OUTPUT


def test_recording_a_skip_renews_what_was_printed_and_keeps_the_rest():
    expected = EXPECTED.replace("    at", "# Not run on hardware:\n    at")
    renewed, _ = record(expected, "[1] Ask\n    NVIDIA A100: supported\nSKIP: no; get one\n", "here")
    assert renewed == expected.replace("nowhere", "here").replace("H200", "A100")
