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
    sayState(`${file.name}, ${bytes(file.size)}, read in ${seconds(view.ms / 1000)}.`);
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
  $('report').hidden = false;
  await showTimeline();
  $('snapshot-title').textContent = view.file.name;
  const entries = `${number(r.entries)} entries` + (r.steps ? ` in ${number(r.steps)} step${r.steps === 1 ? '' : 's'}` : '');
  $('snapshot-subtitle').textContent = `${entries}, GPU ${r.device}. ` + (r.exact === true ?
    'The simulation repeats every decision that PyTorch made, to the address.' : r.exact === false ?
    'The simulation differs from the recording, so other settings are estimates.' : '');
  showFindings(r);
  facts($('snapshot-facts'), [
    ['Allocated at most', amount(r.recorded.peak_allocated_bytes)],
    ['Reserved at most', amount(r.recorded.peak_reserved_bytes)],
    ['Lost to fragmentation at the peak', amount(r.fragmentation_bytes)],
    ['Limit', r.limit_bytes === null ? 'none' : amount(r.limit_bytes), r.limit_is_inferred ? ' (inferred)' : ''],
    ['Out of memory', r.recorded.ooms ? `${number(r.recorded.ooms)} times` : 'never'],
    ['Retries', number(r.recorded.retries)],
    ['Segments taken, given back', `${number(r.recorded.segment_allocs)}, ${number(r.recorded.segment_frees)}`],
    ['Allocator settings', r.recorded_alloc_conf || 'default'],
  ]);
  showLeaks(r);
  $('snapshot-notes').replaceChildren(r.notes.length ? noteItems(r.notes) : element('p', '', 'None.'));
  $('alloc-conf').value = r.simulated_alloc_conf;
  $('limit').value = '';
  $('try-said').textContent = '';
  $('ranking').replaceChildren();
}

const lineText = h => h.file ? `${h.file}:${h.line}${h.function ? ' in ' + h.function : ''}` : h.module || '(no stack)';

function showFindings(r) {
  const said = [];
  for (const oom of r.ooms || []) said.push([`Out of memory${oom.step ? ` in step ${oom.step}` : ''}` + (oom.requested_bytes ? `: ${bytes(oom.requested_bytes)} more were requested.` : '.')]);
  for (const text of leakTexts(r)) said.push([text]);
  for (const d of r.duplicates || []) said.push([duplicateText(d)]);
  if (!said.length) said.push(['No leak, no model in memory twice, and memory did not run out.', 'fine']);
  $('findings').replaceChildren(...said.map(([text, className]) => element('li', className || '', text)));
}

const leakTexts = r => r.leaks ? [`Memory leaks: ${bytes(r.leaks.bytes_per_step)} more in every step` + (r.leaks.bytes ? `, ${bytes(r.leaks.bytes)} so far.` : '.')] : [];
const duplicateText = d => `A model is in memory ${d.copies || 'more than once'}${d.copies ? ' times' : ''}: ${bytes(d.bytes ?? d.model_bytes ?? 0)} each.`;

function showLeaks(r) {
  const parts = [];
  for (const text of leakTexts(r)) parts.push(element('p', '', text));
  const lines = r.leaks?.lines || r.leaks?.holders || [];
  if (lines.length) parts.push(element('div', 'scroll', holderTable(element('table'), lines, r.leaks.bytes)));
  for (const d of r.duplicates || []) parts.push(element('p', '', duplicateText(d)));
  if (!parts.length) parts.push(element('p', '', r.steps >= 3 ? 'None found.' : 'None found. Leaks show only over several steps, and this recording has ' + number(r.steps) + '.'));
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

function holderTable(table, holders, total) {
  const head = ['line', 'kind', 'blocks', 'bytes', 'share', ''].map((text, i) => {
    const th = element('th', i >= 2 && i <= 4 ? 'number' : '', text);
    th.scope = 'col';
    return th;
  });
  table.className = 'rows';
  table.replaceChildren(element('thead', '', element('tr', '', ...head)), element('tbody', '', ...holders.map(h => {
    const fill = element('div'), share = h.share ?? h.bytes / total;
    fill.style.width = 100 * share + '%';
    return element('tr', '', element('td', 'wide', lineText(h)), element('td', '', h.kind || ''), element('td', 'number', h.count === undefined ? '' : number(h.count)),
      element('td', 'number', amount(h.bytes)), element('td', 'number', (100 * share).toFixed(1) + ' %'), element('td', 'share', fill));
  })));
  return table;
}

let momentTimer = 0;

// The legend follows the cursor at once; the lines follow when it rests.
function askMoment(sheet, i) {
  updateTimeLegend(sheet, i);
  const event = i === view.sheet?.peak && sheet === view.sheet ? sheet.peakEvent ?? sheet.entry[i] : null;
  const at = sheet === timeChart.whole && i === sheet.peak ? 'At the peak' : `At ${timeChart.when(sheet, i)}`;
  $('moment-title').textContent = `${at}, ${timeChart.where(sheet, i)}: ${bytes(sheet.allocated[i])} allocated, ${bytes(sheet.reserved[i])} reserved`;
  clearTimeout(momentTimer);
  const mine = ++view.moment;
  momentTimer = setTimeout(async () => {
    try {
      const m = await view.snapshot.moment({event: Math.round(event ?? sheet.event?.[i] ?? timeChart.cursor), top: 20});
      if (mine === view.moment) showMoment(m);
    } catch (error) { if (mine === view.moment) $('fragmentation').replaceChildren(element('p', '', error.message)); }
  }, 60);
}

function showMoment(m) {
  holderTable($('moment'), m.holders);
  const f = m.fragmentation, parts = [];
  if (f) {
    const pieces = [['allocated', f.allocated_bytes - (f.slack_bytes || 0), kinds[1]], ['rounding of requests', f.slack_bytes || 0, kinds[5]],
      ['stranded: free, but in segments that are partly in use', f.stranded_bytes, kinds[4]], ['cached: free segments', f.cached_bytes, kinds[3]]];
    const map = element('div', 'map', ...pieces.filter(([, b]) => b > 0).map(([name, b, kind]) => {
      const made = element('i');
      made.style.flex = `${b} 0 0`;
      made.style.background = paint(kind);
      made.title = `${name}: ${bytes(b)}`;
      return made;
    }));
    map.setAttribute('aria-hidden', true);
    parts.push(element('h3', '', 'Fragmentation at this moment'), map, element('p', '', 'Of ', amount(f.reserved_bytes), ' reserved, ', amount(f.stranded_bytes),
      ' are stranded (free, but in segments that are partly in use), ', amount(f.cached_bytes), ' are cached in free segments, and rounding takes ',
      amount(f.slack_bytes || 0), '. The largest free block has ', amount(f.largest_free_bytes), '.'));
  }
  $('fragmentation').replaceChildren(...parts);
}

// ---- other allocator settings -------------------------------------------------------------------------------

const presets = ['', 'expandable_segments:True', 'max_split_size_mb:128', 'max_split_size_mb:512', 'garbage_collection_threshold:0.8',
  'roundup_power2_divisions:4', 'expandable_segments:True,garbage_collection_threshold:0.8'];

function trySettings(alloc_conf, limit) {
  const request = {alloc_conf};
  if (limit) request.limit = limit;
  return replayWith(request);
}

async function replayWith(request) {
  const said = $('try-said');
  if (!view.snapshot) return;
  said.textContent = 'Following the recording under these settings ...';
  try {
    await view.snapshot.replay(request);
    const r = view.report = await view.snapshot.report();
    await showTimeline();
    const s = r.simulated, before = r.recorded, less = before.peak_reserved_bytes - s.peak_reserved_bytes;
    said.replaceChildren(Object.keys(request).length ? 'Under these settings: ' : 'As recorded: ', amount(s.peak_reserved_bytes, 'b'), ' reserved at most',
      less ? `, ${bytes(Math.abs(less))} ${less > 0 ? 'less' : 'more'} than recorded` : ', as recorded',
      `; ${number(s.segment_allocs)} segments taken, ${number(s.retries)} retries` + (s.ooms ? `; memory runs out ${number(s.ooms)} times` : s.ooms === 0 && before.ooms ? '; memory no longer runs out' : '') + '.');
  } catch (error) { said.textContent = error.message + (error.hint ? '. ' + error.hint : ''); }
}

async function rank() {
  const said = $('try-said');
  said.textContent = 'Trying the usual settings ...';
  try {
    const limit = $('limit').value.trim();
    await view.snapshot.replay({tune: true, ...(limit ? {limit} : {})});
    const r = await view.snapshot.report();
    const head = ['settings', 'reserved at most', 'segments taken', 'retries', 'out of memory', ''].map((text, i) => element('th', i >= 1 && i <= 4 ? 'number' : '', text));
    $('ranking').className = 'rows';
    $('ranking').replaceChildren(element('thead', '', element('tr', '', ...head)), element('tbody', '', ...r.tune.map(t => {
      const use = element('button', '', 'Try');
      use.type = 'button';
      use.onclick = () => { $('alloc-conf').value = t.alloc_conf; trySettings(t.alloc_conf, $('limit').value.trim()); };
      return element('tr', t.recorded ? 'now' : '', element('td', 'wide', t.alloc_conf || 'default', t.recorded ? element('span', 'minor', 'as recorded') : t.recommended ? element('span', 'minor', 'recommended') : null),
        element('td', 'number', amount(t.peak_reserved_bytes)), element('td', 'number', number(t.segment_allocs)), element('td', 'number', number(t.retries)),
        element('td', 'number', t.ooms ? number(t.ooms) : 'no'), element('td', '', use));
    })));
    said.textContent = 'Best first.';
  } catch (error) { said.textContent = error.message + (error.hint ? '. ' + error.hint : ''); }
}

function listenToSnapshot() {
  $('snapshot-file').onchange = e => { const [file] = e.target.files; if (file) openSnapshot(file); };
  $('snapshot-other').onclick = () => { $('drop').hidden = false; $('report').hidden = true; sayState(''); $('snapshot-file').value = ''; $('snapshot-file').focus(); };
  $('alloc-confs').append(...presets.filter(Boolean).map(value => { const o = element('option'); o.value = value; return o; }));
  $('try').onsubmit = e => { e.preventDefault(); trySettings($('alloc-conf').value.trim(), $('limit').value.trim()); };
  $('recorded').onclick = () => { $('alloc-conf').value = view.report?.recorded_alloc_conf || ''; $('limit').value = ''; replayWith({}); };
  $('tune').onclick = rank;
}
