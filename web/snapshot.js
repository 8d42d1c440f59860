// The Snapshot view: a recording of PyTorch's allocator.

const view = {snapshot: null, report: null, sheet: null, moment: 0, busy: 0};

const timeChart = new MemoryChart($('time-chart'), {onCursor: (sheet, i) => askMoment(sheet, i), onView: askDetail, wheel: true});
const columns = () => Math.max(600, Math.min(4000, Math.round($('time-chart').clientWidth * (devicePixelRatio || 1))));

function sayState(text) { $('snapshot-state').textContent = text; }

// ---- opening ------------------------------------------------------------------------------------------------

async function openSnapshot(file) {
  const mine = ++view.busy, began = performance.now();
  showProblem($('snapshot-problem'), null);
  $('report').hidden = true;
  sayState(`Reading ${file.name}, ${bytes(file.size)} ...`);
  try {
    await view.snapshot?.close();
    view.snapshot = null;
    const snapshot = await engine.openSnapshot(file, {});
    if (mine !== view.busy) return snapshot.close();
    view.snapshot = snapshot;
    view.file = file;
    await showReport();
    view.ms = performance.now() - began;
    sayState('');
    $('drop').hidden = true;
    document.title = file.name + ' - Plimsoll';
  } catch (error) {
    if (mine !== view.busy) return;
    sayState('');
    $('drop').hidden = false;
    showProblem($('snapshot-problem'), error.message ? error : {message: String(error)});
  }
}

async function showReport() {
  const r = view.report = await view.snapshot.report();
  $('snapshot-title').textContent = view.file.name;
  $('report').hidden = false;
  await showTimeline();
  const entries = `${number(r.entries)} entries` + (r.steps ? ` in ${number(r.steps)} step${r.steps === 1 ? '' : 's'}` : '');
  $('snapshot-subtitle').textContent = `${bytes(view.file.size)}, ${entries}, GPU ${r.device}. ` + (r.exact === true ?
    'The simulation repeats every decision that PyTorch made, to the address.' : r.exact === false ?
    'The simulation differs from the recording, so other settings are estimates.' : '');
  showFindings(r);
  facts($('snapshot-facts'), [
    ['Allocated at most', amount(r.recorded.peak_allocated_bytes)],
    ['Reserved at most', amount(r.recorded.peak_reserved_bytes)],
    ['Lost to fragmentation at the peak', amount(r.fragmentation_bytes)],
    ['Limit', r.limit_bytes === null ? 'none' : amount(r.limit_bytes), r.limit_is_inferred ? ' (inferred)' : ''],
    ['Out of memory', r.recorded.ooms ? times(r.recorded.ooms) : 'never'],
    ['Retries', number(r.recorded.retries)],
    ['Segments taken, given back', `${number(r.recorded.segment_allocs)}, ${number(r.recorded.segment_frees)}`],
    ['Allocator settings', r.recorded_alloc_conf || 'default'],
  ]);
  showLeaks(r);
  $('snapshot-notes').replaceChildren(r.notes.length ? noteItems(r.notes) : element('p', '', 'None.'));
  $('alloc-conf').value = r.simulated_alloc_conf;
  $('limit').value = '';
  $('try-said').textContent = '';
  sayShown({});
  $('ranking').replaceChildren();
}

const lineText = h => h.file ? `${h.file}:${h.line}${h.function ? ' in ' + h.function : ''}` : h.module || 'unknown line';
const times = n => n === 1 ? 'once' : n === 2 ? 'twice' : `${number(n)} times`;

const oomText = o => `Out of memory when requesting ${bytes(o.request_bytes)}${o.step ? ` in step ${number(o.step)}` : ''}` +
  (o.fits_if_compacted ? '; it would have fitted without fragmentation.' : o.fits_if_compacted === false ? '; it would not have fitted without fragmentation either.' :
    o.compacted_free_high_bytes >= o.request_bytes ? `. Without fragmentation up to ${bytes(o.compacted_free_high_bytes)} would be free, so fragmentation may be the cause; a memory limit gives a definite answer.` : '.');
const leakText = l => `Leak: ${bytes(l.bytes_per_step)} more per step, from step ${number(l.first_step)} to ${number(l.last_step)}, ${bytes(l.bytes)} in ${number(l.count)} tensors at the end, ` +
  `allocated in ${lineText(l)}.` + (l.full_at_step ? ` Memory is full at step ${number(l.full_at_step)}.` : '');
const duplicateText = d => `A model is in memory ${times(d.copies.length)}: ${number(d.tensors)} tensors; keeping only the smallest copy would free ${bytes(d.wasted_bytes)}.`;

function showFindings(r) {
  const said = [...r.ooms.map(oomText), ...(r.leaks || []).map(leakText), ...r.duplicates.map(duplicateText)].map(text => [text]);
  if (!said.length) said.push(['Memory did not run out, and no model is in memory twice.' + (r.leaks ? ' No leak was found.' : ''), 'fine']);
  $('findings').replaceChildren(...said.map(([text, className]) => element('li', className || '', text)));
}

const stackOf = h => {
  const made = element('details', '', element('summary', '', 'Where it was allocated'));
  made.append(element('pre', '', h.stack.map(lineText).join('\n')));
  return made;
};

function showLeaks(r) {
  const parts = [];
  for (const l of r.leaks || []) parts.push(element('p', '', leakText(l)), ...(l.stack?.length ? [stackOf(l)] : []));
  for (const d of r.duplicates) {
    parts.push(element('p', '', duplicateText(d)));
    for (const c of d.copies) parts.push(element('p', '', amount(c.bytes), ` in ${lineText(c)}`), ...(c.stack?.length ? [stackOf(c)] : []));
  }
  if (!r.leaks) parts.push(element('p', '', `Leaks were not looked for: that takes at least 6 training steps, and there are ${number(r.steps)}.`));
  else if (!r.leaks.length) parts.push(element('p', '', `No leak in ${number(r.steps)} steps.`));
  if (!r.duplicates.length) parts.push(element('p', '', 'No model is in memory more than once.'));
  $('leaks').replaceChildren(...parts);
}

// ---- memory over time ---------------------------------------------------------------------------------------

async function showTimeline() {
  const sheet = sheetOfSnapshot(await view.snapshot.timeline({columns: columns()}));
  timeChart.set(sheet);
  view.sheet = sheet;
  fillTimeLegend();
  askMoment(timeChart.sheet, timeChart.column);
}

let detailTimer = 0;

// Zoomed in, finer columns are asked for what is in view and a little around it.
function askDetail(first, end) {
  clearTimeout(detailTimer);
  detailTimer = setTimeout(async () => {
    const whole = timeChart.whole;
    if (!timeChart.isZoomed || whole.end - whole.first <= whole.count) return;
    const around = (end - first) / 2;
    const from = Math.max(whole.first, Math.floor(first - around)), to = Math.min(whole.end, Math.ceil(end + around));
    const answer = await view.snapshot.timeline({columns: 2 * columns(), from, to});
    if (timeChart.whole === whole) timeChart.detail(sheetOfSnapshot(answer));
  }, 120);
}

function fillTimeLegend() {
  const sheet = timeChart.whole, button = (key, mark, name) => {
    const made = element('button', '', mark, element('span', '', name), element('b', ''));
    made.type = 'button';
    made.dataset.key = key;
    made.setAttribute('aria-pressed', timeChart.isShown(key));
    made.onclick = () => { timeChart.toggle(key); made.setAttribute('aria-pressed', timeChart.isShown(key)); };
    return element('li', '', made);
  };
  const line = kind => element('span', 'swatch line ' + kind);
  const items = sheet.present.map(k => button(k, swatch(sheet.kinds[k]), sheet.kinds[k][0]));
  items.push(button('reserved', line('reserved'), 'reserved'));
  if (sheet.limit !== null) items.push(button('limit', line('limit'), 'limit'));
  $('time-legend').replaceChildren(...items);
}

function updateTimeLegend(sheet, i) {
  for (const made of $('time-legend').querySelectorAll('button')) {
    const {key} = made.dataset;
    made.querySelector('b').textContent = bytes(key === 'reserved' ? sheet.reserved[i] : key === 'limit' ? sheet.limit : sheet.stack[key][i]);
  }
}

// ---- a moment -----------------------------------------------------------------------------------------------

const SHOWN = 12;

function holderTable(table, holders) {
  const head = ['memory', 'share', '', 'line', 'kind', 'blocks'].map((text, i) => {
    const th = element('th', i < 2 || i === 5 ? 'number' : i === 2 ? 'share' : '', text);
    th.scope = 'col';
    return th;
  });
  table.className = 'rows';
  table.replaceChildren(element('thead', '', element('tr', '', ...head)), element('tbody', '', ...holders.slice(0, SHOWN).map(h => {
    const fill = element('div'), share = h.share;
    fill.style.width = 100 * share + '%';
    return element('tr', '', element('td', 'number', amount(h.bytes)), element('td', 'number', (100 * share).toFixed(1) + ' %'), element('td', 'share', fill),
      element('td', 'wide', lineText(h)), element('td', 'kind', h.kind), element('td', 'number', number(h.count)));
  })));
  const others = holders.slice(SHOWN), rest = others.reduce((sum, h) => sum + h.bytes, 0);
  const blocks = others.reduce((sum, h) => sum + h.count, 0), share = others.reduce((sum, h) => sum + h.share, 0);
  if (others.length) table.tBodies[0].append(element('tr', '', element('td', 'number', amount(rest)), element('td', 'number', (100 * share).toFixed(1) + ' %'),
    element('td', 'share'), element('td', 'wide', `${number(others.length)} more line${others.length === 1 ? '' : 's'}`), element('td', ''), element('td', 'number', number(blocks))));
  return table;
}

let momentTimer = 0;

// The legend follows the cursor at once; the lines follow when it rests.
function askMoment(sheet, i) {
  updateTimeLegend(sheet, i);
  const at = sheet === timeChart.whole && i === sheet.peak ? 'At the peak' : `At ${timeChart.when(sheet, i)}`;
  $('moment-title').textContent = `${at}, ${timeChart.where(sheet, i)}: ${bytes(sheet.allocated[i])} allocated, ${bytes(sheet.reserved[i])} reserved`;
  clearTimeout(momentTimer);
  const mine = ++view.moment;
  momentTimer = setTimeout(async () => {
    try {
      const m = await view.snapshot.moment({event: Math.max(1, sheet.event[i])}); // 0: before the first one, which has no holders
      if (mine === view.moment) showMoment(m);
    } catch (error) { if (mine === view.moment) $('fragmentation').replaceChildren(element('p', '', error.message)); }
  }, 60);
}

function showMoment(m) {
  const isKnown = m.holders.some(h => h.file || h.module);
  holderTable($('moment'), m.holders);
  $('moment').hidden = !isKnown;
  $('no-stacks').hidden = isKnown;
  $('fragmentation').replaceChildren(...(m.fragmentation ? fragmentationParts(m.fragmentation) : []));
}

function piece(size, background, title) {
  const made = element('i');
  made.style.flex = `${size} 0 0`;
  made.style.background = background;
  made.title = title;
  return made;
}

// All reserved memory by what it is used for, and below it each segment by how much of it is free.
function fragmentationParts(f) {
  const used = paint(kinds[1]), free = paint(kinds[4]);
  const pieces = [['in use', f.allocated_bytes - f.slack_bytes, used], ['lost to rounding', f.slack_bytes, paint(kinds[5])],
    ['stranded', f.stranded_bytes, free], ['cached', f.cached_bytes, paint(kinds[3])]].filter(([, b]) => b > 0);
  const whole = element('div', 'map', ...pieces.map(([name, b, background]) => piece(b, background, `${name}: ${bytes(b)}`)));
  const key = element('p', 'key', ...pieces.flatMap(([name, b, background]) => {
    const mark = element('span', 'swatch');
    mark.style.background = background;
    return [element('span', '', mark, ` ${name} `, amount(b, 'b'))];
  }));
  const segments = element('div', 'segments-map', ...f.segments.slice(0, 80).map(s => {
    const share = 100 * (s.bytes - s.free_bytes) / s.bytes;
    return piece(s.bytes, `linear-gradient(to top, ${used} ${share}%, ${free} ${share}%)`, `segment of ${bytes(s.bytes)} (${s.pool}): ${bytes(s.free_bytes)} free, largest piece ${bytes(s.largest_free_bytes)}`);
  }));
  for (const map of [whole, segments]) map.setAttribute('aria-hidden', true);
  const parts = [element('h3', '', 'Fragmentation at this moment'), whole, key];
  if (f.segments.length) parts.push(element('p', 'hint', 'Segments with free memory, most of it first; width is size, the upper part is free:'), segments);
  parts.push(element('p', 'hint', 'Stranded memory is free, but in segments that are partly in use: only requests that fit into it can use it. The largest free piece has ', amount(f.largest_free_bytes), '.'));
  return parts;
}

// ---- other allocator settings -------------------------------------------------------------------------------

const presets = ['', 'expandable_segments:True', 'max_split_size_mb:128', 'max_split_size_mb:512', 'garbage_collection_threshold:0.8',
  'roundup_power2_divisions:4', 'expandable_segments:True,garbage_collection_threshold:0.8'];

function trySettings(alloc_conf, limit) {
  const request = {alloc_conf};
  if (limit) request.limit = limit;
  return replayWith(request);
}

function useSettings(alloc_conf) {
  $('alloc-conf').value = alloc_conf;
  return trySettings(alloc_conf, $('limit').value.trim());
}

// What the chart shows: the recording, or what it would have been.
function sayShown(request) {
  const {alloc_conf, limit} = view.settings = request;
  const settings = alloc_conf === undefined ? '' : alloc_conf || 'PyTorch\u2019s default settings';
  $('shows').textContent = !settings ? 'The recording' : `Simulated with ${settings}${limit ? ` and a limit of ${limit}` : ''}`;
}

async function replayWith(request) {
  const said = $('try-said');
  if (!view.snapshot) return;
  said.textContent = 'Following the recording under these settings ...';
  try {
    await view.snapshot.replay(request);
    const r = view.report = await view.snapshot.report();
    await showTimeline();
    sayShown(request);
    const s = r.simulated, before = r.recorded, less = before.peak_reserved_bytes - s.peak_reserved_bytes;
    said.replaceChildren(Object.keys(request).length ? 'Under these settings: ' : 'As recorded: ', amount(s.peak_reserved_bytes, 'b'), ' reserved at most',
      less ? `, ${bytes(Math.abs(less))} ${less > 0 ? 'less' : 'more'} than recorded` : ', as recorded',
      `; ${number(s.segment_allocs)} segments taken, ${number(s.retries)} retries` + (s.ooms ? `; memory runs out ${number(s.ooms)} times` : s.ooms === 0 && before.ooms ? '; memory no longer runs out' : '') + '.');
  } catch (error) { said.textContent = sentences(error); }
}

async function rank() {
  const said = $('try-said');
  said.textContent = 'Trying the usual settings ...';
  try {
    const limit = $('limit').value.trim();
    await view.snapshot.replay({...view.settings, tune: true, ...(limit ? {limit} : {})}); // shows what it showed before
    const r = await view.snapshot.report();
    const head = ['settings', 'reserved at most', 'segments taken', 'retries', 'out of memory', ''].map((text, i) => element('th', i >= 1 && i <= 4 ? 'number' : '', text));
    $('ranking').className = 'rows';
    $('ranking').replaceChildren(element('thead', '', element('tr', '', ...head)), element('tbody', '', ...r.tune.map(t => {
      const use = element('button', '', 'Try');
      use.type = 'button';
      use.onclick = () => useSettings(t.alloc_conf);
      return element('tr', t.recorded ? 'now' : '', element('td', 'wide', t.alloc_conf || 'default', t.recorded ? element('span', 'minor', 'as recorded') : t.recommended ? element('span', 'minor', 'recommended') : null),
        element('td', 'number', amount(t.peak_reserved_bytes)), element('td', 'number', number(t.segment_allocs)), element('td', 'number', number(t.retries)),
        element('td', 'number', t.ooms ? number(t.ooms) : 'no'), element('td', '', use));
    })));
    said.textContent = 'Best first.';
  } catch (error) { said.textContent = sentences(error); }
}

function listenToSnapshot() {
  $('snapshot-file').onchange = e => { const [file] = e.target.files; if (file) openSnapshot(file); };
  $('snapshot-other').onclick = () => { $('drop').hidden = false; $('report').hidden = true; sayState(''); $('snapshot-file').value = ''; $('snapshot-file').focus(); };
  $('presets').append(...presets.map(conf => {
    const use = element('button', '', conf || 'default');
    use.type = 'button';
    use.onclick = () => useSettings(conf);
    return use;
  }));
  $('try').onsubmit = e => { e.preventDefault(); trySettings($('alloc-conf').value.trim(), $('limit').value.trim()); };
  $('recorded').onclick = () => { $('alloc-conf').value = view.report?.recorded_alloc_conf || ''; $('limit').value = ''; replayWith({}); };
  $('tune').onclick = rank;
}
