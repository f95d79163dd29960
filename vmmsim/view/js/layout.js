// SPDX-License-Identifier: MIT-0
// Where things stand in a picture, and how wide they are: to scale where the texts then have room.
const WIDTH = 600, GUTTER = 84, MARGIN = 8;
const GAP = 12, INSET = 4;  // between two reservations; between the edge of one and what is in it
const LABEL = 70;  // at the left of a GPU's memory: its name
const LANE = 25, BADGE = 19, BESIDE = 6;  // heights; between boxes
const TALLEST = 600;  // a picture in rows, so that it is seen whole beside the list
class TooWide extends Error {}

// Of a row of reservations: how high a mapping is, and how far below the top texts stand; roomy: as wide as the widest
// fonts need it, or else not at all.
const in_views = { part: 30, name: 23, label: 24, gap: [17, 31], tag: 0, is_roomy: true };
const in_pages = { ...in_views, is_roomy: false };
const in_rows = { part: 36, name: 24, label: 20, gap: [20, 35], tag: 35, is_roomy: true };
const in_narrow_rows = { ...in_rows, is_roomy: false, may_be_tight: true };  // on a phone, where there are no others

const width_of = (text, size = 13) => text.length * size * 0.56;  // generous: which font there is, nobody knows
const width_of_tag = (text) => width_of(text, 14);  // "#" and digits are wide

// Of ranges of numbers: #3–#5, #9; what has no room says how many it is.
function tag_of(ranges, room = Infinity) {
  let text = "", words = "", left = sum(ranges.map(([from, to]) => to - from + 1));
  for (const [nth, [from, to]] of ranges.slice(0, 9).entries()) {
    words += (nth ? ", " : "") + (from == to ? `#${from}` : `#${from}–#${to}`);
    left -= to - from + 1;
    const all = words + (left ? ` +${left}` : "");
    if (nth && width_of_tag(all) > room) break;
    text = all;
  }
  return text;
}
function ranges_of(numbers) {
  const ranges = [];
  for (const number of [...new Set(numbers)].sort((a, b) => a - b))
    if (ranges.length && ranges.at(-1)[1] == number - 1) ranges.at(-1)[1] = number;
    else ranges.push([number, number]);
  return ranges;
}
function gpus_text(devices, is_sentence = false) {  // GPU 0, GPU 0–3, GPU 0, 2
  const parts = ranges_of(devices).map(([from, to]) => from == to ? `${from}` : `${from}–${to}`);
  const text = parts.length ? `GPU ${parts.join(", ")}` : "";
  return is_sentence || width_of(text) < GUTTER - MARGIN ? text : `${devices.length} GPUs`;
}
// Who may touch a mapping: GPU 0 read-write, GPU 1–3 read.
function who_may({ access }, devices) {
  const may = access.flatMap(([flags], index) => flags ? [[flags, devices[index]]] : []);
  const groups = grouped(may, ([flags]) => flags).map(([flags, some]) =>
    `${gpus_text(some.map(([, device]) => device))} ${right(flags)}`);
  return groups.join(", ") || "no access";
}
// The texts, as many on a line as go there.
function lines_of(texts, separator, width, size, end = "") {
  const lines = [];
  for (const text of texts)
    if (lines.length && width_of(`${lines.at(-1)}${separator}${text}`, size) < width)
      lines.push(`${lines.pop()}${separator}${text}`);
    else {
      if (lines.length) lines.push(lines.pop() + end);
      lines.push(text);
    }
  return lines;
}
// Gives each its x: with its middle where it wants it, or as near as may be without leaving their order.
function pack(things, left, right, gap) {
  for (const thing of things) {
    thing.x = left = Math.max(left, thing.wanted - thing.width / 2);
    left += thing.width + gap;
  }
  for (const thing of [...things].reverse()) {
    thing.x = Math.min(thing.x, right - thing.width);
    right = thing.x - gap;
  }
}
// As many side by side as there is room for.
function rows_of(things, widths, room, gap) {
  const rows = [];
  let left = 0;
  things.forEach((thing, index) => {
    if (!rows.length || widths[index] > left) {
      rows.push([]);
      left = room;
    }
    rows.at(-1).push(thing);
    left -= widths[index] + gap;
  });
  return rows;
}

// --- Reservations side by side
// Mappings side by side with the same rights: their rights are written once.
function runs_of(region) {
  const runs = [];
  for (const part of region.parts) {
    const last = runs.at(-1)?.at(-1);
    if (part.has_rights && last?.has_rights && last.rights == part.rights && last.status == part.status)
      runs.at(-1).push(part);
    else runs.push([part]);
  }
  return runs.filter(([part]) => part.has_rights);
}
// Of its parts, so that all texts have room.
function least_widths(region, measures, is_short = false) {
  const sharing = new Map();  // so many have one text for their rights
  for (const run of runs_of(region)) for (const part of run) sharing.set(part, run.length);
  const widths = region.parts.map((part) => {
    const [label, gap] = measures.is_roomy ? [width_of(part.label(), 15) + 8, 104] : [width_of(part.label()) + 8, 76];
    const rights = part.words ? width_of(part.words, 12) + 10 : 68;
    return Math.max(label, part.has_rights ? rights / sharing.get(part) : 0, part.is_mapped ? 0 : gap);
  });
  const missing = Math.max(0, width_of(region.label(is_short)) - sum(widths)) / widths.length;
  return widths.map((width, index) => {
    const part = region.parts[index], has_tag = measures.tag && part.is_mapped;
    return Math.max(width + missing, has_tag ? width_of_tag(tag_of(part.ranges, width)) + 6 : 0);
  });
}
// All to scale, if the texts then have room. Otherwise what they need, and what is left goes to where nothing is
// mapped. Returns what then is left on both sides.
function set_widths(regions, measures, width) {
  const space = width - GUTTER - MARGIN - GAP * (regions.length - 1) - 2 * INSET * regions.length;
  const parts = regions.flatMap((region) => region.parts), gaps = parts.filter((part) => !part.is_mapped);
  const tries = [true, false].flatMap((is_true) =>
    (measures.is_roomy ? [false] : [false, true]).map((is_short) => ({ is_true, is_short })));
  let widths, missing, chosen;
  for (chosen of tries) {
    widths = regions.flatMap((region) => least_widths(region, measures, chosen.is_short));
    if (chosen.is_true) {
      const unit = Math.max(0, ...widths.map((width, index) => width / parts[index].size));
      widths = parts.map((part) => part.size * unit);
    }
    missing = sum(widths) - space;
    if (missing <= 0) break;
  }
  if (missing > 0 && !measures.may_be_tight)
    throw new TooWide(`the addresses are ${Math.round(missing)} units too wide`);
  let stretch = widths.length ? space / sum(widths) : 1;
  if (!(chosen.is_true && gaps.length)) stretch = Math.min(1.15, stretch);
  parts.forEach((part, index) => (part.width = widths[index] * stretch));
  const spare = space - sum(parts.map((part) => part.width));
  for (const gap of gaps) gap.width += spare / gaps.length;
  for (const region of regions) {
    region.caption = region.label(chosen.is_short);
    region.width = sum(region.parts.map((part) => part.width)) + 2 * INSET;
  }
  return gaps.length ? 0 : spare;
}
// Each with its middle where middle(region) is; without that side by side, this share of what is left over before all.
function place_regions(regions, measures, width, share, middle = null) {
  let x = GUTTER + share * set_widths(regions, measures, width);
  for (const region of regions) {
    region.wanted = middle ? middle(region) : x + region.width / 2;
    x += region.width + GAP;
  }
  pack(regions, GUTTER, width - MARGIN, GAP);
  for (const region of regions) {
    x = region.x + INSET;
    for (const part of region.parts) {
      part.x = x;
      x += part.width;
    }
  }
}
// Where an offset would be, to scale.
const x_of = (region, offset) => region.x + INSET + offset / region.size * (region.width - 2 * INSET);
const is_to_scale = (region) => region.parts.every((part) => Math.abs(part.x - x_of(region, part.offset)) < 4
  && Math.abs(part.x + part.width - x_of(region, part.end)) < 4);
// Where a thin bar has these ranges of offsets, to scale: [[x, end]...], one pixel each at least.
function bar_of(region, ranges) {
  const parts = [];
  for (const [begin, end] of ranges) {
    const x = x_of(region, begin), to = Math.max(x_of(region, end), x + 1), last = parts.at(-1) ?? [0, -1];
    if (x - last[1] < 1 && (last[1] - last[0] < 4 || to - x < 4))  // too near to be told apart
      parts[parts.length - 1] = [last[0], Math.max(to, last[1])];
    else parts.push([x, to - x > 4 ? to - 1 : to]);
  }
  return parts;
}

// Reservations side by side that have their places, and lanes of rights on the side of the memory.
class Strip {
  constructor(regions, measures, lanes, y, is_above = true, owner = "") {
    Object.assign(this, { regions, measures, lanes, y, is_above, owner });
    // With room for a bar, if the width of something is not the true one.
    this.region_height = measures.part + 2 * INSET + (regions.every(is_to_scale) ? 0 : 6);
    this.end = y + 18 + this.region_height + 4 + LANE * lanes.length;
    this.top = is_above ? y + 18 : y + LANE * lanes.length + 4;
    this.caption_y = is_above ? y + 12 : this.end - 2;
    this.lanes_y = is_above ? this.top + this.region_height + 4 : y;
  }
}
// A lane for each of these names: what it has of rights_in(part, the nth name) in each run, [words, kind, changed].
function lanes_of(regions, names, rights_in) {
  const runs = regions.flatMap(runs_of).filter(([part]) => part.status != GONE);
  return runs.length ? names.map((name, index) => ({ name, rights: runs.map((run) => {
    const last = run.at(-1);
    return [run[0].x + 2, last.x + last.width - run[0].x - 4, ...rights_in(run[0], index)];
  }) })) : [];
}
