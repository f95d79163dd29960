# SPDX-License-Identifier: MIT-0
"""Where the tool's parts are, once it is installed."""

import dataclasses
import pathlib

PACKAGE = pathlib.Path(__file__).resolve().parent


class Failed(Exception):
    """What is wrong, and what to do about it."""


@dataclasses.dataclass
class Tool:
    """What a program is watched with. A checkout that builds on demand has one of its own."""

    name: str = "vmmsim view"
    example: str = ""
    pages: str = str(PACKAGE / "docs" / "view.md")
    launcher: pathlib.Path = PACKAGE / "bin" / "vmmsim"
    recorder: pathlib.Path = PACKAGE / "recorder" / "libvmm_recorder.so"
    machines: pathlib.Path = PACKAGE / "simulator" / "machines"

    def will_build(self, word):
        """Whether the program need not be there yet."""
        return False

    def programs_like(self, word):
        """Programs that somebody who gave this word may have meant."""
        return []

    def prepare(self, given):
        """All that the run needs is there, or Failed."""
        if given.real and not self.recorder.exists():
            raise Failed("the recorder was not built, for want of CUPTI: install nvidia-cuda-cupti, then vmmsim again")
        if not given.real and not self.launcher.exists():
            raise Failed(f"there is no {self.launcher}: build it, or install vmmsim")
