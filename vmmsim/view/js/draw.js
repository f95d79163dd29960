// SPDX-License-Identifier: MIT-0
// The picture of a step, or of what several steps have changed: with arrows if there is room, else in rows.
//
//     draw(lives, {to, from, width, ...})    {elements, height, width}: elements of SVG, each a text
//
// With a title it is a picture that stands by itself: it has the calls, too, and says nothing of its parts.

// Whether there may be room for arrows.
function may_have_arrows({ lives, devices, spaces, memories }) {
  const all = [...memories.values()].filter(({ status }) => status != GONE);
  const objects = all.filter(({ is_multicast }) => is_multicast).length;
  const idle = all.filter(({ is_multicast, mapped }) => !is_multicast && !mapped.length).length;
  const most_mappings = lives.steps?.length > 2000 ? 24 : 160;
  return devices.every((device, index) => device == index) && devices.length <= 3 && spaces.length <= 2
    && objects <= 1 && !(objects && spaces.length > 1) && idle <= 8
    && !all.some(({ device, is_multicast }) => device < 0 && !is_multicast)
    && spaces.every((regions) => regions.length <= 6)
    && sum(spaces.flat().map((region) => region.inside.length)) <= most_mappings;
}

function draw(lives, { to, from = to - 1, ...options }) {
  return draw_scene(new Scene(lives, from, to), options);
}
function draw_scene(scene, { width = WIDTH, tallest = TALLEST, title = "", calls = [] }) {
  const { lives, to } = scene, { fault = null, process: active } = lives.steps?.[to - 1] ?? {};
  const tooltips = title ? null : new TooltipWriter(lives, scene);
  const blocks = now_of(lives.blocks, to).filter(({ kind }) => kind != OPENED);
  const ordinary = new Set(blocks.map(({ device }) => device));
  const options = { width, tooltips, fault, ordinary, extras: tooltips?.extras() ?? [], title, calls };
  return drawn_with_arrows(scene, options) ?? drawn_in_rows(new Aggregator(scene, active, fault), tallest, options);
}
function drawn_with_arrows(scene, options) {
  const measures = options.title ? in_pages : in_views;
  try {
    return may_have_arrows(scene) ? new ArrowDrawing(scene, { ...options, measures }).draw() : null;
  } catch (error) {
    if (!(error instanceof TooWide)) throw error;
  }
}
// At the first level that is no taller; the higher the level, the less there is. It begins with that of the last
// picture: a step is much like the one before.
function drawn_in_rows(aggregated, tallest, options) {
  const rows = (level, how) => new RowDrawing(aggregated, levels[level], { ...options, ...how }).draw();
  const fits = (level) => rows(level, { tooltips: null, is_trial: true }).height <= tallest;
  let { level = 0 } = aggregated.scene.lives, drawing = rows(level);
  while (level < levels.length - 1 && drawing.height > tallest) drawing = rows(++level);
  while (level > 0 && drawing.height + 24 <= tallest && fits(level - 1))  // one row more is higher
    drawing = rows(--level);
  aggregated.scene.lives.level = level;
  return drawing;
}
