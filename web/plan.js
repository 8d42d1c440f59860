// The Plan view: settings on the left, what they need on the right.

const $ = id => document.getElementById(id);

// What is asked: the request of an estimate, and what the user pasted, {text, file, kind}.
const plan = {request: {}, pasted: null, allow: [], answer: null, versions: null};

const amount = (b, tag = 'span') => {
  const made = element('data', '', tag === 'b' ? element('b', '', bytes(b)) : bytes(b));
  made.value = b;
  made.title = number(b) + ' bytes';
  return made;
};
function seconds(s) {
  if (s === null || s === undefined) return 'unknown';
  if (s < .9995) return (s * 1000).toPrecision(3) + ' ms';
  if (s < 99.95) return s.toPrecision(3) + ' s';
  const whole = Math.round(s);
  return whole < 3600 ? `${Math.floor(whole / 60)} min ${whole % 60} s` : `${Math.floor(whole / 3600)} h ${Math.floor(whole % 3600 / 60)} min`;
}
const isSize = gpu => /^[\d.]+ [KMGT]iB$/.test(gpu || ''); // a GPU that is known by its memory alone
const percent = share => share < .005 ? '0 %' : (100 * share).toFixed(0) + ' %';

// What an error says: what is wrong, and what to do.
const capital = text => text.charAt(0).toUpperCase() + text.slice(1);
const sentences = error => `${error.message}. ${hintOf(error)}`.trim();

// The library's hints are about paths and commands; those of the page say what to do in the page.
function hintOf({message, hint}) {
  if (/^no model is called/.test(message)) return 'Choose a name from the list, or paste the model\u2019s config.json.';
  return hint ? capital(hint.replace('plimsoll help gpus lists the names', 'choose a name from the list')) + '.' : '';
}

function showProblem(box, error) {
  box.hidden = !error;
  if (!error) return;
  const where = error.file ? ` (${error.file}${error.byte !== null && error.byte !== undefined ? ', byte ' + number(error.byte) : ''})` : '';
  box.replaceChildren(element('p', '', element('b', '', capital(error.message) + where)));
  if (hintOf(error)) box.append(element('p', '', hintOf(error)));
}

// ---- controls -----------------------------------------------------------------------------------------------

const shownRows = []; // {row, update()}: the controls of the page

function change(members, {drop = []} = {}) {
  for (const name of drop) delete plan.request[name];
  for (const [name, value] of Object.entries(members))
    if (isOff(value)) delete plan.request[name];
    else plan.request[name] = value;
  refresh();
}

let ids = 0;
const newId = () => 'c' + ++ids;

// If a model takes fewer tokens than are set, the length is reduced.
function chooseModel(model) {
  const most = plan.models.get(model)?.max_tokens;
  if (plan.pasted) forgetPasted();
  change({model, ...(plan.request.seq > most ? {seq: most} : {})});
}

function textControl(row) {
  const id = newId(), input = element('input');
  Object.assign(input, {id, placeholder: row.placeholder || '', spellcheck: false, name: row.text});
  input.autocapitalize = 'off';
  if (row.list) input.setAttribute('list', row.list);
  input.onchange = () => {
    if (row.text === 'model') chooseModel(input.value.trim());
    else change({[row.text]: input.value.trim()});
  };
  // A name chosen from the list counts at once; a typed one when it is known or finished.
  input.oninput = () => { if (row.list && $(row.list).namesOf?.has(input.value)) input.onchange(); };
  const label = element('label', '', row.label);
  label.htmlFor = id;
  return {parts: [label, input], update() {
    const value = plan.request[row.text];
    const text = typeof value === 'object' ? 'pasted config.json' : value ?? '';
    if (document.activeElement !== input || row.text !== 'model') input.value = text;
  }};
}

function sliderControl(row) {
  const id = newId(), range = element('input'), exact = element('input');
  const label = element('label', '', row.label);
  label.htmlFor = id;
  Object.assign(range, {type: 'range', min: 0, max: row.values.length - 1, step: 1, id, name: row.slider});
  Object.assign(exact, {type: 'number', min: 1, step: 1, inputMode: 'numeric', name: row.slider + '_exact'});
  exact.setAttribute('aria-label', row.label + ', exact');
  range.oninput = () => change({[row.slider]: row.values[range.value]});
  exact.oninput = () => { if (exact.value >= 1) change({[row.slider]: Math.round(exact.value)}); };
  exact.onblur = () => refresh();
  const nearest = value => {
    let best = 0;
    row.values.forEach((v, i) => { if (Math.abs(v - value) < Math.abs(row.values[best] - value)) best = i; });
    return best;
  };
  return {parts: [label, element('div', 'slider', range, exact)], update() {
    const value = plan.request[row.slider] ?? row.unset, at = nearest(value);
    range.value = at;
    range.setAttribute('aria-valuetext', number(value));
    range.style.setProperty('--filled', 100 * at / (row.values.length - 1) + '%');
    if (document.activeElement !== exact) exact.value = value;
  }};
}

// Another value than those of the list, such as one that a pasted file has, is shown as it is.
function choiceControl(row) {
  const id = newId(), name = newId();
  const choose = at => {
    const [, set] = row.options[at];
    const cleared = Object.fromEntries(membersOf(row).map(member => [member, null]));
    change({...cleared, ...set, ...(row.also?.({...plan.request, ...set}) || {})}, {drop: at && row.drops ? row.drops : []});
  };
  if (row.segments) {
    const label = element('span', 'label', row.label || row.choice), box = element('div', 'segments');
    label.id = id;
    box.setAttribute('role', 'radiogroup');
    box.setAttribute('aria-labelledby', id);
    const inputs = row.options.map(([text], at) => {
      const input = element('input');
      Object.assign(input, {type: 'radio', name, value: at});
      input.onchange = () => choose(at);
      box.append(element('label', '', input, text));
      return input;
    });
    return {parts: [label, box], update() {
      const at = chosenOf(plan.request, row);
      inputs.forEach((input, i) => { input.checked = i === at; });
    }};
  }
  const select = element('select'), label = element('label', '', row.choice);
  select.id = label.htmlFor = id;
  select.name = row.member || membersOf(row)[0];
  select.onchange = () => { if (select.value !== 'other') choose(Number(select.value)); };
  const fill = () => select.replaceChildren(...row.options.map(([text], at) => {
    const option = element('option', '', text);
    option.value = at;
    return option;
  }));
  return {parts: [label, select], update() {
    const at = chosenOf(plan.request, row);
    if (select.options.length !== row.options.length) fill();
    if (at < 0) {
      const other = element('option', '', membersOf(row).filter(m => !isOff(plan.request[m])).map(m => plan.request[m]).join(', '));
      other.value = 'other';
      select.append(other);
    }
    select.value = at < 0 ? 'other' : at;
  }};
}

// Members of the request that have no control: removed by a click, added as name=value.
function otherControl() {
  const chips = element('div', 'chips'), input = element('input', 'mono'), label = element('label', '', 'Other options');
  input.id = label.htmlFor = newId();
  input.placeholder = '--lora-dropout 0.05';
  input.spellcheck = false;
  input.onchange = () => {
    const typed = input.value.trim().match(/^(?:--)?([a-z][a-z0-9_-]*)(?:[\s=:]+(.*))?$/);
    if (!typed) return;
    const name = typed[1].replaceAll('-', '_');
    input.value = '';
    change({[name]: memberOf(name, typed[2] || 'true') === 'true' ? true : memberOf(name, typed[2] || 'true')});
  };
  return {parts: [label, element('div', '', chips, input)], update() {
    const others = Object.keys(plan.request).filter(name => !controlled.has(name) && !isOff(plan.request[name]));
    chips.hidden = !others.length;
    chips.style.marginBottom = others.length ? '6px' : '';
    chips.replaceChildren(...others.map(name => {
      const value = plan.request[name], button = element('button', '', `--${name.replaceAll('_', '-')}${value === true ? '' : ' ' + value}`);
      button.type = 'button';
      button.setAttribute('aria-label', 'remove ' + button.textContent);
      button.onclick = () => change({[name]: null});
      return button;
    }));
  }};
}

function makeControls() {
  for (const {group, rows} of controls) {
    const box = element('fieldset', 'group', element('legend', '', group));
    const add = (row, made) => {
      const line = element('div', 'row-control', ...made.parts);
      box.append(line);
      shownRows.push({update() {
        line.hidden = row.when ? !row.when(plan.request) : false;
        made.update();
      }});
    };
    for (const row of rows) add(row, row.text ? textControl(row) : row.slider ? sliderControl(row) : choiceControl(row));
    if (group === 'Program') add({}, otherControl());
    $('groups').append(box);
  }
  $('controls').onsubmit = e => e.preventDefault();
}

const list = (id, names) => {
  const made = element('datalist', '', ...names.map(([value, text]) => {
    const option = element('option', '', text || '');
    option.value = value;
    return option;
  }));
  made.id = id;
  made.namesOf = new Set(names.map(([value]) => value));
  document.body.append(made);
};

async function fillLists() {
  const [models, gpus, knobs] = await Promise.all(['models', 'gpus', 'knobs'].map(what => engine.list(what)));
  list('models', models.models.map(m => [m.name, `${m.id}, ${(m.parameters / 1e9).toPrecision(3)}B`]));
  list('gpus', gpus.gpus.map(g => [g.name, bytes(g.cuda_bytes ?? g.memory_bytes)]));
  list('targets', [['all-linear'], ['q_proj,v_proj'], ['q_proj,k_proj,v_proj,o_proj'], ['q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj']]);
  plan.models = new Map(models.models.flatMap(m => [[m.name, m], [m.id, m]]));
  for (const row of controls.flatMap(({rows}) => rows).filter(r => r.knob)) {
    const {values} = knobs.knobs.find(k => k.name === row.knob);
    row.options = values.map(value => [value, {[row.member]: value}]);
    row.by = request => values.indexOf(request[row.member] ?? row.unset);
  }
}

// ---- what was pasted ----------------------------------------------------------------------------------------

// The file name under which the library reads a pasted text; it tells the format.
function fileNameOf(text) {
  const start = text.trimStart();
  if (/^[{[]\s*["{}\]]/.test(start)) return 'train.json';
  if (/^#!.*\b(ba|z)?sh\b/.test(start) || /^\s*(export |python3? |accelerate launch|torchrun|deepspeed )/m.test(start)) return 'train.sh';
  if (/^(from \S+ )?import \S/m.test(start)) return 'train.py';
  if (/^\s*\[[\w.]+\]\s*$/m.test(start)) return 'train.toml';
  return 'train.yaml';
}

function modelConfigOf(text) {
  try {
    const config = JSON.parse(text);
    return config && typeof config === 'object' && (config.model_type || config.architectures) ? config : null;
  } catch { return null; }
}

function forgetPasted() {
  plan.pasted = null;
  $('pasted').value = $('pasted-said').textContent = '';
  $('clear-pasted').hidden = true;
  $('pasted-file').value = '';
  if (typeof plan.request.model === 'object') delete plan.request.model;
}

async function readPasted(pasted, {keep = null} = {}) {
  const said = $('pasted-said'), config = modelConfigOf(pasted.text);
  $('pasted').value = pasted.text;
  $('clear-pasted').hidden = false;
  $('paste').open = true;
  said.className = '';
  if (config) {
    plan.pasted = pasted;
    plan.request = {...(keep || plan.request), model: config};
    said.textContent = `Read as a model's config.json (${config.model_type || config.architectures[0]}).`;
    refresh();
    return;
  }
  pasted.file ??= fileNameOf(pasted.text);
  said.textContent = 'Reading it ...';
  try {
    const {gpu} = keep || plan.request, request = {files: [pasted.file]};
    if (gpu) request.gpu = gpu;
    const answer = await engine.plan(request, {files: {[pasted.file]: pasted.text}});
    const dialect = answer.files?.[0]?.dialect;
    plan.pasted = pasted;
    pasted.notes = answer.notes;
    plan.request = keep && Object.keys(keep).length > 1 ? keep : {...answer.before.request, gpu};
    said.textContent = `Read as ${dialect ? 'settings of ' + dialect : pasted.file}; the settings below are those of your file.`;
    const same = [...$('dialect').options].find(o => [o.value, o.text].some(name => name.toLowerCase() === dialect?.toLowerCase()));
    if (same) $('dialect').value = same.value;
    showProblem($('plan-problem'), null);
    refresh();
  } catch (error) {
    said.className = 'alarm';
    said.textContent = 'It could not be read: ' + sentences(error) + ' The answer is for the settings below, not for this text.';
    refresh();
  }
}

// ---- the answer ---------------------------------------------------------------------------------------------

// The sentence below the verdict, as `plimsoll estimate` says it.
function needsText(a) {
  const strong = b => amount(b, 'b'), need = a.fits ? a.device_bytes : a.needed_bytes;
  const parts = [a.errs_high && a.fits === false ? 'As predicted, needs ' : 'Needs ', strong(need)];
  const left = a.budget_bytes === null ? 0 : a.budget_bytes - need;
  if (a.budget_bytes !== null) parts.push(' of ', amount(a.budget_bytes));
  if (left > 0) parts.push(', ', strong(left), a.errs_low ? ' to spare for what is not modelled' : ' to spare');
  if (left < 0) parts.push(', ', strong(-left), a.fits ? ' more, because PyTorch checks the limit before it rounds up to whole pages' : ' short');
  if (a.interval_bytes) {
    const [low, high] = a.interval_bytes;
    parts.push('; between ', amount(low), ' and ', amount(high), a.fits && high > a.budget_bytes ? ', so it may not fit' : '');
  }
  if (a.fits === false && a.errs_high) parts.push('; but it needs less than predicted, so it may fit');
  if (a.fits === false && a.needed_bytes > a.device_bytes) parts.push('; a training step alone needs ', amount(a.device_bytes));
  if (a.interval_bytes) parts.push('.');
  return parts;
}

function showVerdict(a) {
  const verdict = $('verdict'), needs = $('needs');
  const word = a.fits === null ? 'Which GPU?' : a.fits ? 'FITS' : 'DOES NOT FIT';
  if (verdict.textContent !== word) verdict.textContent = word;
  verdict.className = a.fits === null ? 'pending' : a.fits ? 'fits' : 'misses';
  needs.replaceChildren(...needsText(a));
}

function showBar(a) {
  const budget = a.budget_bytes, whole = Math.max(budget ?? 0, a.device_bytes, a.interval_bytes?.[1] ?? 0) * (budget ? 1.015 : 1.03);
  const share = b => 100 * b / whole + '%';
  const hull = element('div', 'hull', ...components.map(kind => {
    const made = element('i');
    made.style.width = share(a.components[kind[0]] || 0);
    made.style.background = paint(kind);
    made.title = `${kind[0]}: ${bytes(a.components[kind[0]] || 0)}`;
    if (!a.components[kind[0]]) made.style.boxShadow = 'none';
    return made;
  }));
  const parts = [hull];
  if (budget !== null && a.device_bytes > budget) {
    const over = element('div', 'over-line');
    over.style.left = share(budget);
    over.style.right = 100 - 100 * a.device_bytes / whole + '%';
    hull.append(over);
  }
  if (budget !== null) {
    const wide = $('bar').clientWidth, name = a.gpu && !isSize(a.gpu) && wide > 420 ? a.gpu + ': ' : '';
    const load = element('div', budget / whole * wide > 240 ? 'load' : 'load left');
    load.style.left = share(budget);
    load.innerHTML = '<svg viewBox="0 0 32 32" aria-hidden="true"><circle cx="16" cy="16" r="9.5"/><path d="M1 16H31"/></svg>';
    load.append(element('span', '', name, element('b', '', bytes(budget)), ' usable'));
    parts.push(load);
  }
  if (a.interval_bytes) {
    const range = element('div', 'interval');
    range.style.left = share(a.interval_bytes[0]);
    range.style.width = 100 * (a.interval_bytes[1] - a.interval_bytes[0]) / whole + '%';
    parts.push(range);
  }
  $('bar').replaceChildren(...parts);
  $('bar').setAttribute('aria-label', `${bytes(a.device_bytes)} in all` + (budget === null ? '' : ` against ${bytes(budget)} of the GPU`));
}

function showBudget(a) {
  const rows = components.map(kind => {
    const b = a.components[kind[0]] || 0;
    return element('tr', b ? '' : 'none', element('th', '', swatch(kind), kind[0]),
                   element('td', '', b ? amount(b) : '\u2013'), element('td', '', b ? percent(b / a.device_bytes) : ''));
  });
  rows.forEach(row => { row.firstChild.scope = 'row'; });
  $('budget').tBodies[0].replaceChildren(...rows);
}

function placeText(p) {
  if (!p) return '';
  const layer = p.layer === null ? '' : `, ${p.is_recomputed ? 'recomputing ' : ''}layer ${p.layer}`;
  const what = p.what ? (layer ? ` (${p.what})` : `, ${p.what}`) : '';
  return `${p.step ? `step ${p.step}, ` : ''}${p.phase}${layer}${what}`;
}

function facts(box, pairs) {
  box.replaceChildren(...pairs.map(([name, ...value]) => element('div', '', element('dt', '', name), element('dd', '', ...value))));
}

function showFacts(a) {
  const count = n => n >= 999.5e6 ? (n / 1e9).toPrecision(3) + '\u00a0B' : n >= 999.5e3 ? (n / 1e6).toPrecision(3) + '\u00a0M' : number(n);
  facts($('facts'), [
    ['Time per step', seconds(a.step_seconds)],
    ['Tokens per second', a.tokens_per_second === null ? 'unknown' : number(Math.floor(a.tokens_per_second))],
    ['Trained parameters', `${a.trainable === a.params ? 'all' : count(a.trainable)} of ${count(a.params)}`],
    ['Host memory', a.host_bytes ? amount(a.host_bytes) : 'none'],
    ['Peak', placeText(a.peak_at)],
    ['Runs out of memory', a.runs_out_at ? placeText(a.runs_out_at) : 'no'],
    ['Allocated at most', amount(a.peak_allocated_bytes)],
    ['Reserved at most', amount(a.peak_reserved_bytes)],
  ]);
}

// Every note of the answer, with what it is.
function noteItems(notes, extra = []) {
  const word = code => /^assume/.test(code) ? 'assumed' : /^(unmodelled|ignored|not_)/.test(code) ? 'not modelled' :
    code.split('.')[0].replaceAll('_', ' ');
  const rows = [...extra, ...notes.map(n => [word(n.code), n.message + (n.file ? ` (${n.file}${n.line ? ':' + n.line : ''})` : '')])];
  return element('ul', 'note-list', ...rows.map(([what, text, className]) =>
    element('li', className || '', element('span', '', what), element('span', '', text))));
}

function showNotes(a) {
  const extra = [];
  if (a.errs_low) extra.push(['errs low', 'The run needs more than predicted, because something in it is not modelled (see below).', 'errs']);
  if (a.errs_high) extra.push(['errs high', `The run needs less than predicted${a.fits === false ? ', so it may fit' : ''} (see below).`, 'errs']);
  if (a.runs_math_attention) extra.push(['attention', 'PyTorch has no fused attention kernel for this combination of head size, dtype and bias on this GPU, so the whole score matrix is kept in memory.']);
  if (a.retries) extra.push(['allocator', `${number(a.retries)} allocation retries; each releases cached memory to the driver, which costs time.`]);
  for (const text of a.unverified) extra.push(['unverified', text]);
  const seen = new Set(a.notes.map(n => n.message));
  const fromFile = (plan.pasted?.notes || []).filter(n => !seen.has(n.message));
  $('notes').replaceChildren(noteItems([...a.notes, ...fromFile], extra));
}

// ---- the curve ----------------------------------------------------------------------------------------------

const stepChart = new MemoryChart($('step-chart'), {onCursor: sayMoment});

function sayMoment(sheet, i) {
  const at = i === sheet.peak && sheet === stepChart.whole ? 'At the peak, ' : 'At ';
  $('step-when').textContent = `${at}${stepChart.where(sheet, i)}: ${bytes(sheet.allocated[i])} allocated, ${bytes(sheet.reserved[i])} reserved.`;
}

const results = ['bar', 'budget', 'facts', 'step-chart', 'notes'];

// The numbers. The range and the notes come with the whole answer, which other versions of the libraries are part of.
function showNumbers(a) {
  plan.answer = a;
  showProblem($('plan-problem'), null);
  for (const id of results) $(id).classList.remove('stale');
  showVerdict(a);
  showBar(a);
  showBudget(a);
  showFacts(a);
}

function showWhole(a) {
  plan.versions = Object.entries(a.versions).map(([name, v]) => `${name}=${v.version}`).join(',');
  showNumbers(a);
  showNotes(a);
}

// Says what of a run is drawn.
const shortening = (request, shortened) => !shortened ? ' All steps are drawn.' :
  ' Two steps are drawn' + (shortened.accumulate ? `, with two of the ${number(request.accumulate)} forward passes of each` : '') + '; those after them are like the second.';

function showCurve(a, hint) {
  stepChart.set(sheetOfStep(a.timeline), {keepView: true});
  sayMoment(stepChart.sheet, stepChart.column);
  $('curve-hint').textContent = hint;
}

function showFailure(error) {
  plan.answer = null;
  $('verdict').textContent = 'No prediction';
  $('verdict').className = 'pending';
  $('needs').textContent = 'The figures below belong to the previous settings.';
  for (const id of results) $(id).classList.add('stale');
  showProblem($('plan-problem'), error);
  $('ladder-state').textContent = 'No plan without a prediction.';
}

// ---- asking -------------------------------------------------------------------------------------------------

// Runs `act` for the newest settings. Changes that arrive while it runs wait, and only the last of them is handled.
class Newest {
  constructor(act) { Object.assign(this, {act, isBusy: false, isWaiting: false, done: 0}); }

  async ask() {
    if (this.isBusy) { this.isWaiting = true; return; }
    this.isBusy = true;
    const began = performance.now();
    await this.act();
    this.ms = performance.now() - began;
    this.done++;
    this.isBusy = false;
    if (this.isWaiting) { this.isWaiting = false; this.ask(); }
  }
}

// The versions that are assumed if none are given. If they are given, the library does not also predict other versions.
const pinned = request => request.versions || !plan.versions ? request : {...request, versions: plan.versions};

const quickly = new Newest(async () => {
  const {request} = plan;
  try {
    const answer = await engine.estimate(pinned(request));
    if (plan.wholeFor !== plan.request) showNumbers({...answer, interval_bytes: null});
  } catch { /* the whole answer says why */ }
});

const wholly = new Newest(async () => {
  const {request} = plan;
  try {
    const answer = await engine.estimate(request, {lane: 'slow'});
    if (request !== plan.request) return;
    showWhole(answer);
    planLater();
  } catch (error) { if (request === plan.request) showFailure(error); }
  if (request !== plan.request) return;
  plan.wholeFor = request;
  await checkCurve(request);
});

// Steps are alike from the second on, and so are the passes of a step: two of each are drawn.
const curve = new Newest(async () => {
  const {request} = plan;
  await drawCurve(request, {steps: 2, ...(request.accumulate > 2 ? {accumulate: 2} : {})});
  if (plan.wholeFor === request) await checkCurve(request);
});

async function drawCurve(request, shortened) {
  try {
    const answer = await engine.estimate({...pinned(request), timeline: 480, ...shortened}, {lane: 'curve'});
    plan.curve = {request, shortened, answer};
    showCurve(answer, shortening(request, shortened));
  } catch { /* the whole answer says why */ }
}

// If the peak of those differs from that of the run, all steps are drawn. The reserved memory may differ, and the page then
// says so.
async function checkCurve(request) {
  const drawn = plan.curve, whole = plan.answer;
  if (!whole || drawn?.request !== request || !drawn.shortened) return;
  if (drawn.answer.peak_allocated_bytes !== whole.peak_allocated_bytes) await drawCurve(request, null);
  else if (drawn.answer.peak_reserved_bytes !== whole.peak_reserved_bytes)
    $('curve-hint').textContent = shortening(request, drawn.shortened) + ` In the whole run, ${bytes(whole.peak_reserved_bytes)} are reserved at most.`;
}

let wholeTimer = 0;

// Everything that follows a change of the settings. The request is a new object after each change, so that an answer
// knows whether it is still wanted.
function refresh() {
  if (shownView() !== 'plan') return;
  plan.request = {...plan.request};
  for (const row of shownRows) row.update();
  stopPlanning();
  clearTimeout(wholeTimer);
  if (plan.versions) quickly.ask();
  curve.ask();
  wholeTimer = setTimeout(() => wholly.ask(), plan.answer ? 150 : 0);
  updateTexts();
}

// Whether everything that is shown belongs to the settings.
const isSettled = () => plan.wholeFor === plan.request && ![quickly, curve, wholly].some(n => n.isBusy);

// ---- fallbacks ----------------------------------------------------------------------------------------------

let planTimer = 0, planning = null; // the search that is under way can be aborted

function stopPlanning() {
  clearTimeout(planTimer);
  planning?.abort();
  planning = null;
  $('ladder').classList.add('stale');
  $('ladder').inert = true; // its rows are of other settings
  $('ladder-state').textContent = 'Looking for the fastest settings that fit ...';
}

function planLater() {
  stopPlanning();
  if (!plan.request.gpu && !plan.request.limit) {
    $('ladder-state').textContent = 'Name a GPU to see which settings fit on it.';
    $('ladder').replaceChildren();
    $('reasons').replaceChildren();
    $('concessions').replaceChildren();
    return;
  }
  planTimer = setTimeout(search, 400);
}

async function search() {
  const mine = planning = new AbortController(), began = performance.now(), request = {...plan.request};
  if (plan.allow.length) request.allow = plan.allow;
  delete request.timeline;
  try {
    const answer = await engine.plan(request, {signal: mine.signal});
    if (!mine.signal.aborted) showLadder(answer, (performance.now() - began) / 1000);
  } catch (error) {
    if (mine.signal.aborted) return;
    $('ladder').replaceChildren();
    $('reasons').replaceChildren();
    $('concessions').replaceChildren();
    $('ladder-state').textContent = `No plan: ${sentences(error)}`;
  }
}

// Whether two requests mean the same by a control, though one of them names the default.
const isSame = (row, before, after) => row.slider ? (before[row.slider] ?? row.unset) === (after[row.slider] ?? row.unset) :
  row.choice && chosenOf(before, row) >= 0 && chosenOf(before, row) === chosenOf(after, row);

// How two requests differ, in the words of the controls: ["checkpointing on", ...].
function differences(before, after) {
  const said = [], names = new Set([...Object.keys(before), ...Object.keys(after)]);
  const differs = name => JSON.stringify(isOff(before[name]) ? null : before[name]) !== JSON.stringify(isOff(after[name]) ? null : after[name]);
  const done = new Set(['model', 'gpu', 'timeline', 'steps']);
  for (const row of controls.flatMap(({rows}) => rows)) {
    const members = row.text || row.slider ? [row.text || row.slider] : membersOf(row);
    const isNew = members.some(m => !done.has(m) && differs(m));
    members.forEach(m => done.add(m));
    if (!isNew || isSame(row, before, after)) continue;
    if (row.slider) said.push(`${row.label.toLowerCase()} ${number(after[row.slider] ?? row.unset)}`);
    else if (row.text) said.push(`${row.label} ${after[row.text] || 'default'}`);
    else {
      const at = chosenOf(after, row), text = at < 0 ? members.map(m => after[m]).filter(v => !isOff(v)).join(', ') : row.options[at][0];
      said.push(`${row.choice.toLowerCase().replace(/^liger/, 'Liger')} ${text}`);
    }
  }
  for (const name of names) if (!done.has(name) && differs(name)) said.push(isOff(after[name]) ? `without --${name.replaceAll('_', '-')}` : `--${name.replaceAll('_', '-')}${after[name] === true ? '' : ' ' + after[name]}`);
  return said;
}

function ladderRow(row, i, before, {extra = ''} = {}) {
  const e = row.estimate, changes = row.request ? differences(before, row.request) : [];
  const take = element('button', '', changes.length ? 'Use' : 'In use');
  take.type = 'button';
  take.disabled = !changes.length;
  take.setAttribute('aria-label', `${take.textContent} row ${i}`);
  take.onclick = () => {
    const {model, gpu} = plan.request;
    plan.request = {...row.request, model, ...(gpu ? {gpu} : {})};
    refresh();
    $('verdict').scrollIntoView({block: 'nearest'});
  };
  const td = (className, ...what) => element('td', className, ...what);
  return element('tr', changes.length ? '' : 'now', td('number', String(i)), td('number', amount(e.device_bytes)), td('number', seconds(e.step_seconds)),
    td('number', e.tokens_per_second === null ? '' : number(Math.floor(e.tokens_per_second))),
    td('wide', changes.length ? changes.join(', ') : 'as set now', extra ? element('span', 'minor', extra) : null), td('', take));
}

function showLadder(a, took) {
  const before = a.before?.request ? {...a.before.request} : {...plan.request};
  const head = element('thead', '', element('tr', '', ...['', 'memory', 'time per step', 'tokens per second', 'what changes', ''].map((text, i) => {
    const th = element('th', i < 4 ? 'number' : '', text);
    th.scope = 'col';
    return th;
  })));
  const rows = a.ladder.map((row, i) => ladderRow(row, i + 1, before));
  if (a.faster?.request) rows.push(ladderRow(a.faster, a.ladder.length + 1, before, {extra: a.faster.request.offload ? 'faster, with offload to the host, whose speed depends on your machine' : 'faster, with changes that you make yourself'}));
  $('ladder').className = 'rows';
  $('ladder').inert = false;
  $('ladder').replaceChildren(...(rows.length ? [head, element('tbody', '', ...rows)] : []));
  const tried = `${number(a.tried)} combinations tried in ${seconds(took)}`;
  const clocked = isSize(a.gpu) ? ' Times are for an H200; name your GPU to get its times.' : '';
  $('ladder-state').textContent = a.fits ? `Fastest first; none changes the effective batch or what the model learns. ${tried}.${clocked}` :
    rows.length ? `Nothing fits with room for the error margin. The closest, ${tried}:` : `Nothing fits without changing what the model learns. ${tried}.`;
  if (!a.fits && a.smallest?.estimate) $('ladder-state').textContent += ` The smallest needs ${bytes(a.smallest.estimate.device_bytes)}.`;
  const reasons = a.changes.filter(c => c.why);
  $('reasons').replaceChildren(...(reasons.length ? [element('h3', '', 'Why the first row changes that'), element('ul', 'reasons', ...reasons.map(c =>
    element('li', '', element('b', '', c.knob.replaceAll('_', ' ') + ': '), c.why + (c.saves_bytes > 0 ? `; saves ${bytes(c.saves_bytes)}` : ''))))] : []));
  const steps = a.steps || [], texts = steps.map(s => element('li', '', capital(s.text), ...(s.lines ? [element('pre', '', s.lines.trim())] : [])));
  if (texts.length) $('reasons').append(element('h3', '', 'What else the first row needs'), element('ul', 'reasons', ...texts));
  const known = new Set([...(plan.answer?.notes || []), ...(plan.pasted?.notes || [])].map(n => n.message));
  const notes = a.notes.filter(n => !known.has(n.message));
  if (notes.length) $('reasons').append(element('h3', '', 'What the plan rests on'), noteItems(notes));
  showConcessions(a);
}

// What would change what the model learns is offered, never used without a click.
function showConcessions(a) {
  const items = (a.concessions || []).map(c => {
    const names = c.allow.map(x => x.knob), allow = element('button', '', 'Allow');
    allow.type = 'button';
    allow.setAttribute('aria-label', 'allow the plan to change ' + names.join(' and '));
    allow.onclick = () => { plan.allow = [...new Set([...plan.allow, ...names])]; planLater(); };
    return element('tr', '', element('td', 'wide', c.allow.map(x => `${x.knob.replaceAll('_', ' ')} ${x.to} instead of ${x.from}`).join(', ')),
      element('td', 'number', amount(c.device_bytes)), element('td', '', c.fits ? 'fits' : 'does not fit'), element('td', '', allow));
  });
  const parts = [];
  if (items.length) {
    const table = element('table', 'rows', element('tbody', '', ...items));
    parts.push(element('h3', '', 'Not used, because it changes what the model learns'), element('div', 'scroll', table));
  }
  if (plan.allow.length) {
    const back = element('button', '', 'Allow nothing');
    back.type = 'button';
    back.onclick = () => { plan.allow = []; planLater(); };
    parts.push(element('p', 'hint', `The plan may change: ${plan.allow.join(', ').replaceAll('_', ' ')}. `), back);
  }
  $('concessions').replaceChildren(...parts);
}

// ---- what can be copied -------------------------------------------------------------------------------------

let textsTimer = 0;

function updateTexts() {
  $('command').textContent = commandOf(plan.request, 'config.json');
  clearTimeout(textsTimer);
  textsTimer = setTimeout(async () => {
    const hash = await linkOf('plan', plan.request, plan.pasted);
    if (shownView() === 'plan') history.replaceState(null, '', hash);
    $('link').textContent = location.href.replace(/#.*/, '') + hash;
    await fillSettings();
  }, 250);
}

async function fillSettings() {
  const dialect = $('dialect').value;
  if (!dialect) return;
  try {
    const a = await engine.settings({...plan.request, dialect});
    $('settings').textContent = a.text;
    const left = a.left_out || [];
    $('left-out').textContent = left.length ? `${dialect} has no setting for: ${left.map(o => typeof o === 'string' ? o : o.option || o.name).join(', ')}.` : '';
  } catch (error) {
    $('settings').textContent = '';
    $('left-out').textContent = sentences(error);
  }
}

async function fillDialects() {
  try {
    const {dialects} = await engine.settings({});
    $('settings-box').hidden = false;
    $('dialect').replaceChildren(...dialects.map(d => {
      const name = d.name || d, option = element('option', '', d.title || name);
      option.value = name;
      return option;
    }));
  } catch { $('settings-box').hidden = true; }
  $('dialect').onchange = fillSettings;
}

function listenToPaste() {
  $('read-pasted').onclick = () => { if ($('pasted').value.trim()) readPasted({text: $('pasted').value}); };
  $('clear-pasted').onclick = () => { forgetPasted(); refresh(); };
  $('pasted').addEventListener('paste', () => setTimeout(() => $('read-pasted').click()));
  $('pasted-file').onchange = async e => { const [file] = e.target.files; if (file) readPasted({text: await file.text(), file: file.name}); };
}

async function openPlan({request, pasted}) {
  const usual = {model: 'qwen2.5-7b', gpu: 'RTX 4090', batch: 2, accumulate: 8, seq: 2048, lora_rank: 16, amp: 'bf16', loop: 'trainer'};
  plan.request = Object.keys(request).length || pasted ? request : usual;
  if (pasted) await readPasted(pasted, {keep: request});
  else refresh();
}
