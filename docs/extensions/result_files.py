# SPDX-License-Identifier: MIT-0
"""The result files, docs/results/NAME.jsonl: what the lessons' programs measured and wrote with --json.

A file holds runs one after the other, each a line of conditions, a line for each measurement, and a last line that says
that the run is complete. What is not so is refused, with the name of the file and the number of the line.
"""

import json

CONDITIONS = {"program": str, "arguments": str, "device": str, "gpus": int, "driver": str, "cuda": str, "date": str}


class BadResults(ValueError):
    pass


def load(path):
    """The runs of a result file: [(conditions, measurements)]. Raises BadResults, which names the line."""
    runs, complete = [], True
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise BadResults(f"{path}: {error.strerror}; docs/results/record.sh makes such files") from error
    for number, line in enumerate(lines, 1):

        def bad(what, number=number):
            return BadResults(f"{path}:{number}: {what}")

        try:
            entry = json.loads(line)
        except ValueError as error:
            raise bad(f"not JSON: {error}") from error
        if not isinstance(entry, dict):
            raise bad("not a JSON object")
        if "program" in entry:
            if not complete:
                raise bad("a run begins, and the one before it has not ended")
            for key, kind in CONDITIONS.items():
                if not isinstance(entry.get(key), kind) or entry[key] in ("", "unknown"):
                    raise bad(f"the conditions do not tell {key!r}; record the file on a GPU")
            runs.append((entry, []))
            complete = False
        elif complete:
            raise bad("a measurement without conditions before it")
        elif entry.get("what") == "complete":
            complete = True
            if not runs[-1][1]:
                raise bad("a run without a measurement")
        else:
            try:
                runs[-1][1].append(with_derived(entry))
            except (KeyError, TypeError, ValueError) as error:
                raise bad(f"not a measurement: {error}") from error
    if not runs or not complete:
        raise BadResults(f"{path}: the last run is not complete; record the file again")
    return runs


def with_derived(entry):
    """A measurement with what follows from it. Its times, their number and their median must agree."""
    unit = "ms" if "ms" in entry else "us"
    times, median = sorted(entry[unit]), entry[f"median_{unit}"]
    half = 0.00051  # the last digit is rounded
    if not times or len(times) != entry["repeats"]:
        raise ValueError(f"{entry['repeats']} repeats, {len(times)} times")
    if not times[0] > 0 or not times[(len(times) - 1) // 2] - half <= median <= times[len(times) // 2] + half:
        raise ValueError(f"the median of the times is not {median}")
    entry[f"fastest_{unit}"] = times[0]
    if "bytes" in entry:
        entry["gb_per_s"] = entry["bytes"] / entry[f"median_{unit}"] / (1e6 if unit == "ms" else 1e3)
    if "peak_bytes" in entry:
        entry["peak_ratio"] = entry["peak_bytes"] / entry["final_bytes"]
    if "peers_enabled" in entry:
        entry["gpus_in_all"] = entry["peers_enabled"] + 1
    if "open_to" in entry:
        entry["gpus_in_all"] = entry["open_to"]
    return entry
