# SPDX-License-Identifier: MIT-0
"""A scene in words, for those who do not see its picture."""

from vmmsim.view.contents import GONE, KEPT, NEW, RIGHTS
from vmmsim.view.sizes import size_text

MARKS = {NEW: " (new)", KEPT: "", GONE: " (gone)"}


def words_of(scene, title):
    sentences = []
    for owner, space in zip(scene.processes, scene.spaces, strict=True):
        whose = owner and f"{owner}: "
        if not space:
            sentences.append(f"{whose}no addresses reserved.")
        for region in space:
            parts = ", then ".join(part_in_words(scene, part, region) for part in region.parts)
            size = size_text(region.size) + MARKS[region.status]
            sentences.append(f"{whose}reservation {region.name}, {size}: {parts}.")
    for device in scene.devices:
        boxes = [box_in_words(scene, box) for box in scene.boxes.values() if box.device == device]
        sentences.append(f"GPU {device} holds {'; '.join(boxes) or 'nothing'}.")
    for box in scene.boxes.values():
        if box.device < 0:
            bound = "memory of both bound" if len(box.bound) == len(scene.devices) else "nothing bound"
            about = f"{box_in_words(scene, box)}; team of {team_text(box)}, {bound}"
            sentences.append(f"Multicast object: {about}.")
    return f"{title}. " + " ".join(sentence[0].upper() + sentence[1:] for sentence in sentences)


def team_text(box):
    return " and ".join(f"GPU {device}" for device in box.team) or "no GPU yet"


def part_in_words(scene, part, region):
    if not part.memory:
        return f"{part.label()} {part.note()}"
    box = scene.boxes[part.memory]
    target = f"memory of GPU {box.device}" if box.device >= 0 else "the multicast object"
    rights = ", ".join(
        f"GPU {device} {RIGHTS[flags]}" + (" now" if has_changed and part.status != NEW else "")
        for device, (flags, has_changed) in part.access.items()
    )
    mark = part.status if part.status not in (KEPT, region.status) else ""
    about = "; ".join(filter(None, (mark, rights if part.status != GONE else "")))
    return f"{part.label()} mapped to {target}" + (f" ({about})" if about else "")


def box_in_words(scene, box):
    badges = [badge.text + (MARKS[badge.status] if badge.status != box.status else "") for badge in scene.badges(box)]
    return box.label() + MARKS[box.status] + (f" with {' and '.join(badges)}" if badges else "")
