// What memory is for, from the bottom of a stack upwards, with its colours on a light and on a dark page: those of the
// command line's pictures (src/cli/estimate/estimate_picture.c, src/cli/replay/replay_picture.c).

const purposes = [
  ['weights', '#264b7a', '#3d6aa3'], ['adapters', '#a9d6e5', '#b5e0ec'], ['optimizer', '#6fa3d8', '#86b4e3'],
  ['gradients', '#237c71', '#2f978a'], ['workspace', '#5b4590', '#6a52a3'], ['activations', '#f3bc4e', '#f0b645'],
  ['logits', '#d9603b', '#dd6a47'],
];

// The budget also has what is not in any tensor.
const components = [...purposes, ['fragmentation', '#c9ced6', '#4a515d'], ['context', '#8a929f', '#7d8693']];

const kinds = [
  ['parameters', '#264b7a', '#3d6aa3'], ['optimizer state', '#6fa3d8', '#86b4e3'],
  ['gradients', '#237c71', '#2f978a'], ['other', '#a8a8a8', '#9a9a9a'], ['leaked', '#b0184f', '#c93a6e'],
  ['workspaces', '#8b79b8', '#7d6bb0'], ['activations', '#f3bc4e', '#f0b645'],
  ['temporaries', '#d9603b', '#dd6a47'],
];

// The answer "timeline" of an estimate as a sheet of the chart.
function sheetOfStep(t) {
  const known = purposes.filter(([name]) => t.parts[name]);
  return {
    entry: t.event, step: t.step, time: null, place: t.place, reserved: t.reserved_bytes, highest: t.reserved_bytes,
    kinds: known, stack: known.map(([name]) => t.parts[name]),
    phases: t.phases.map(p => [p.first, p.end, p.phase]).filter(([, , name]) => name !== 'load'),
    marks: [], held: [], lines: [], stacks: false, limit: t.limit_bytes, peak: t.peak, setup: 'loading', unit: 'event',
  };
}

// The answer of plimsoll_snapshot_timeline as a sheet of the chart.
function sheetOfSnapshot(t) {
  const known = kinds.filter(([name]) => t.parts[name]);
  return {
    first: t.first, end: t.end, event: t.event, entry: t.entry, step: t.step, time: t.seconds, reserved: t.reserved_bytes,
    highest: t.highest_reserved_bytes, kinds: known, stack: known.map(([name]) => t.parts[name]), phases: null,
    marks: t.marks.map(m => ({column: m.column, ooms: m.ooms, retries: m.retries, empties: m.empty_caches})),
    held: t.holders.map(column => column.flatMap(h => [h.line, h.bytes])), lines: t.lines, stacks: t.lines.length > 0,
    limit: t.limit_bytes, peak: t.peak, setup: 'set-up', unit: 'entry',
  };
}
