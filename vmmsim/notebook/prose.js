// SPDX-License-Identifier: MIT-0
// A scene in words, for those who do not see its picture; of much, what has changed and what comes first.
function drawn(lives, { from, to, ...options }) {
  const scene = new Scene(lives, from, to);
  return { ...draw_scene(scene, options), words: words_of(scene, options.title) };
}

const most_words = 8;  // reservations of a process, parts of one, allocations of a GPU

function some_of(all, is_first, noun, word) {
  const kept = new Set([...all].sort((one, other) => is_first(other) - is_first(one)).slice(0, most_words));
  const words = all.filter((each) => kept.has(each)).map(word), rest = all.length - words.length;
  return rest ? [...words, `${plural(rest, `more ${noun}`)}`] : words;
}
function words_of(scene, title) {
  const sentences = [], regions = scene.spaces.flat();
  scene.spaces.forEach((space, process) => {
    const whose = scene.processes[process] && `${scene.processes[process]}: `;
    if (!space.length) sentences.push(`${whose}no addresses reserved.`);
    const is_first = ({ status, parts }) => status != KEPT || parts.some((part) => part.is_marked);
    sentences.push(...some_of(space, is_first, "reservation", (region) => region_in_words(scene, region))
      .map((words) => `${whose}${words}.`));
  });
  const several = regions.flatMap(({ parts }) => parts.filter((part) => part.mappings.length > 1));
  const joined = new Set(several.flatMap((part) => part.mappings.map(({ memory }) => memory.nth)));
  const alone = [...scene.memories.values()].filter(({ nth }) => !joined.has(nth)).map((memory) => [memory]);
  const boxes = [...alone, ...several.map((part) => part.mappings.map(({ memory }) => memory))]
    .map((memories) => new Box(memories)).sort((one, other) => one.nth - other.nth);
  for (const device of scene.devices) {
    const its = boxes.filter((box) => box.device == device && !box.is_multicast);
    const words = some_of(its, (box) => box.mark != KEPT, "allocation", (box) => box_in_words(scene, box));
    sentences.push(`GPU ${device} holds ${words.join("; ") || "nothing"}.`);
  }
  for (const box of boxes.filter(({ is_multicast }) => is_multicast)) {
    const bound = box.bound.length == scene.devices.length ? "memory of both bound" : "nothing bound";
    sentences.push(`Multicast object: ${box_in_words(scene, box)}; team of ${team_text(box)}, ${bound}.`);
  }
  return `${title}. ${sentences.map((sentence) => sentence[0].toUpperCase() + sentence.slice(1)).join(" ")}`;
}
function region_in_words(scene, region) {
  const parts = some_of(region.parts, (part) => part.is_marked, "part", (part) => part_in_words(scene, part, region));
  return `reservation ${region.name}, ${size_text(region.size)}${marks[region.status]}: ${parts.join(", then ")}`;
}
function part_in_words({ devices }, part, region) {
  if (!part.is_mapped) return `${part.label()} not mapped`;
  const target = part.memory.device >= 0 ? `memory of GPU ${part.memory.device}` : "the multicast object";
  const rights = part.access.map(([flags, changed], index) =>
    `GPU ${devices[index]} ${right(flags)}${changed && part.status != NEW ? " now" : ""}`).join(", ");
  const mark = [KEPT, region.status].includes(part.status) ? "" : part.status;
  const about = [mark, part.status == GONE ? "" : rights].filter(Boolean).join("; ");
  return `${part.label()} mapped to ${target}${about ? ` (${about})` : ""}`;
}
function box_in_words(scene, box) {
  const badges = scene.badges(box).map(({ text, status }) => text + (status != box.status ? marks[status] : ""));
  return box.label() + marks[box.status] + (badges.length ? ` with ${badges.join(" and ")}` : "");
}
