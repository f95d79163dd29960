# SPDX-License-Identifier: MIT-0
"""A trace: what reads it, the model that replays it, and where its calls stand in sources.

What is named here is for everybody; all else in this package may change.
"""

from vmmsim.trace.checks import OF_MODULES
from vmmsim.trace.line import NO_CALLS, SUCCESS, number, validate_call
from vmmsim.trace.model import Machine
from vmmsim.trace.places import places as source_places
from vmmsim.trace.recording import OF_LOADING, Broken, Recording, finish

__all__ = [
    "NO_CALLS",
    "OF_LOADING",
    "OF_MODULES",
    "SUCCESS",
    "Broken",
    "Machine",
    "Recording",
    "finish",
    "number",
    "source_places",
    "validate_call",
]
