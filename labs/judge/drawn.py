# SPDX-License-Identifier: MIT-0
"""The sizes and counts that are drawn anew, so that no answer can be made for them: once a run of ./lab.sh."""

import os
import random

NAME = "LABS_SEED"  # of the environment: with the same number all is drawn again
SEED = os.environ.setdefault(NAME, str(random.randrange(1_000_000)))  # also for the processes that this one starts


def drawn(lab):
    """What draws for a lab, whichever others there are."""
    return random.Random(f"{SEED} {lab}")
