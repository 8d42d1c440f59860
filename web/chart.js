// The chart of memory over time: the pictures of the command line and the page draw it with this.
'use strict';

// ---- text ----

const number = n => n.toLocaleString('en-US');

// As printf rounds: a tie goes to the even digit.
function fixed(value, digits) {
  const scaled = value * 10 ** digits, below = Math.floor(scaled);
  return scaled - below === .5 && below % 2 === 0 ? (below / 10 ** digits).toFixed(digits) : value.toFixed(digits);
}

function bytes(b) {
  let unit = 0;
  for (; b >= (unit ? 1023.5 : 1024); unit++) b /= 1024;
  const digits = !unit || b >= 99.95 ? 0 : b >= 9.995 ? 1 : 2;
  return fixed(b, digits) + '\u00a0' + ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'][unit];
}

function roundBytes(b) {
  let unit = 0;
  for (; b >= 1024; unit++) b /= 1024;
  return +b.toPrecision(4) + ' ' + ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'][unit];
}

function clock(seconds, digits) {
  if (seconds >= 600) return Math.floor(seconds / 60) + ' min ' + Math.round(seconds % 60) + ' s';
  return seconds.toFixed(digits) + ' s';
}

// ---- pieces of a document ----

// element('p', 'help', 'text'), element('ul', '', item, item): children are texts and elements.
function element(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children.filter(child => child !== undefined && child !== null));
  return made;
}

const isDark = matchMedia('(prefers-color-scheme: dark)');
const color = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const isPrinting = () => 'print' in document.documentElement.dataset;
const paint = kind => kind[isDark.matches && !isPrinting() ? 2 : 1];

function swatch(kind) {
  const made = element('span', 'swatch');
  made.style.background = paint(kind);
  return made;
}

// ---- scales ----

// 1, 2, 5 of a decade; undefined behind the last.
const nextRound = (n, decade) => ({1: 2, 2: 5})[n / decade] * decade || undefined;

function roundStep(top, most) {
  const gib = 2 ** 30;
  let step = 1;
  while (step < gib && top / step > most) step *= 2;
  for (let decade = gib; top / step > most;)
    step = nextRound(step, decade) || (decade *= 10);
  return step;
}

// A sheet is what is drawn: columns in the order of events, each with a number per quantity.
//   entry, step, reserved, highest, place: one per column; time: seconds per column, or null
//   kinds: [name, colour on a light page, colour on a dark one] per layer; stack: numbers per layer
//   phases: [first column, end column, name], with fractions; marks: {column, ooms, retries, empties}
//   held: [line, bytes, line, bytes, ...] per column; lines: their names; stacks: whether there are any
//   limit: bytes or null; peak: a column; setup, unit: words; first, end: the events it covers
function prepareSheet(sheet) {
  sheet.count = sheet.entry.length;
  sheet.first ??= 0;
  sheet.end ??= sheet.count;
  sheet.allocated = sheet.entry.map((_, i) => sheet.stack.reduce((sum, l) => sum + l[i], 0));
  sheet.present = sheet.kinds.map((_, k) => k).filter(k => sheet.stack[k].some(b => b));
  return sheet;
}

// Draws into `box`, an element with a canvas .base, a canvas .over and an element .tip.
//   onCursor(sheet, column): the cursor moved
//   onView(first, end): other events are in view; detail(sheet) then gives more columns for them
//   wheel: whether the mouse wheel zooms
class MemoryChart {
  constructor(box, {onCursor = () => {}, onView = () => {}, wheel = false} = {}) {
    this.box = box;
    this.base = box.querySelector('.base');
    this.over = box.querySelector('.over');
    this.tip = box.querySelector('.tip');
    this.onCursor = onCursor;
    this.onView = onView;
    this.hidden = new Set(); // layers switched off: their numbers, 'reserved', 'limit'
    this.drag = null;        // {start, now}: pixels, while a range is being drawn
    this.listen(wheel);
  }

  // ---- what is drawn ----

  // A sheet of everything. The view may stay; the cursor is at the peak until the user moves it.
  set(sheet, {keepView = false} = {}) {
    const before = this.whole;
    this.whole = prepareSheet(sheet);
    this.finer = null;
    const stays = keepView && before && before.end === sheet.end;
    if (!stays) {
      this.from = sheet.first;
      this.to = sheet.end;
    }
    if (!stays || !this.isMoved) this.cursor = this.eventOf(sheet, sheet.peak), this.isMoved = false;
    this.draw();
  }

  detail(sheet) {
    this.finer = prepareSheet(sheet);
    this.draw();
  }

  get sheet() {
    const finer = this.finer;
    return finer && finer.first <= this.from && finer.end >= this.to ? finer : this.whole;
  }

  eventOf(sheet, column) {
    return sheet.first + (column + .5) * (sheet.end - sheet.first) / sheet.count;
  }

  columnOf(sheet, event) {
    const at = Math.floor((event - sheet.first) * sheet.count / (sheet.end - sheet.first));
    return Math.max(0, Math.min(sheet.count - 1, at));
  }

  get column() { return this.columnOf(this.sheet, this.cursor); }

  get isZoomed() { return this.from > this.whole.first || this.to < this.whole.end; }

  isShown(key) { return !this.hidden.has(key); }

  toggle(key) {
    if (!this.hidden.delete(key)) this.hidden.add(key);
    this.draw();
  }

  shownTotal(sheet, i) {
    return sheet.stack.reduce((sum, layer, k) => sum + (this.isShown(k) ? layer[i] : 0), 0);
  }

  // ---- scales ----

  // The columns in view, [first, end).
  columnsInView(sheet) {
    const perColumn = (sheet.end - sheet.first) / sheet.count;
    const first = Math.max(0, Math.floor((this.from - sheet.first) / perColumn));
    const end = Math.min(sheet.count, Math.ceil((this.to - sheet.first) / perColumn));
    return [first, Math.max(first + 1, end)];
  }

  highestInView(sheet) {
    const [first, end] = this.columnsInView(sheet);
    let top = 0;
    for (let i = first; i < end; i++)
      top = Math.max(top, this.isShown('reserved') ? sheet.highest[i] : 0, this.shownTotal(sheet, i));
    if (this.hasLimit() && sheet.limit < 3 * top) top = Math.max(top, sheet.limit);
    return top * 1.05 || 1;
  }

  hasLimit() { return this.whole.limit !== null && this.isShown('limit'); }

  // The column that stands for each pixel: the one with most allocated.
  choose(sheet, width) {
    const chosen = [], [low, high] = this.columnsInView(sheet);
    const scale = sheet.count / (sheet.end - sheet.first);
    const columnAt = x => (this.from + x * (this.to - this.from) / width - sheet.first) * scale;
    for (let x = 0; x < width; x++) {
      const first = Math.min(high - 1, Math.max(low, Math.floor(columnAt(x))));
      const end = Math.min(high, Math.max(first + 1, Math.floor(columnAt(x + 1))));
      let best = first, highest = 0;
      for (let i = first; i < end; i++) {
        if (sheet.allocated[i] > sheet.allocated[best]) best = i;
        highest = Math.max(highest, sheet.highest[i]);
      }
      chosen.push({column: best, highest});
    }
    return chosen;
  }

  // Of text below the axis: steps, and times or phases or both.
  get rows() { return this.whole.time && this.whole.phases ? 3 : 2; }

  measure() {
    const sheet = this.sheet, width = this.box.clientWidth, height = this.box.clientHeight;
    const left = width < 480 ? 58 : 72, right = width - 14, top = this.whole.marks.length ? 30 : 12;
    const bottom = height - 6 - 19 * this.rows, ratio = window.devicePixelRatio || 1;
    const pixels = Math.max(1, Math.round((right - left) * ratio));
    const highest = this.highestInView(sheet);
    this.plot = {
      sheet, width, height, left, right, top, bottom, ratio, highest,
      chosen: this.choose(sheet, pixels),
      y: b => bottom - b * (bottom - top) / highest,
      x: event => left + (event - this.from) * (right - left) / (this.to - this.from),
      event: x => this.from + (x - left) * (this.to - this.from) / (right - left),
      xOfColumn: i => this.plot.x(sheet.first + i * (sheet.end - sheet.first) / sheet.count),
    };
  }

  // ---- drawing ----

  prepare(canvas) {
    const {width, height, ratio} = this.plot;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const g = canvas.getContext('2d');
    g.scale(ratio, ratio);
    g.font = '12px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif';
    return g;
  }

  rule(g, x1, y1, x2, y2, style, width = 1) {
    g.strokeStyle = style;
    g.lineWidth = width;
    g.beginPath();
    g.moveTo(x1, y1);
    g.lineTo(x2, y2);
    g.stroke();
  }

  label(g, text, x, y, align, style) {
    const half = g.measureText(text).width / 2;
    if (align === 'center')
      x = Math.max(this.plot.left + half, Math.min(this.plot.right - half, x));
    g.textAlign = align;
    g.fillStyle = style;
    g.fillText(text, x, y);
  }

  drawBytes(g) {
    const {plot} = this, step = roundStep(plot.highest, Math.max(3, (plot.bottom - plot.top) / 48));
    for (let b = 0; b <= plot.highest; b += step) {
      const y = Math.round(plot.y(b)) + .5;
      this.rule(g, plot.left, y, plot.right, y, color(b ? '--grid' : '--axis'));
      this.label(g, b ? roundBytes(b) : '0', plot.left - 8, y + 4, 'right', color('--quiet'));
    }
  }

  // Ticks stand at equal numbers of events, where time may crawl or fly: the labels say which.
  drawTimes(g) {
    const {plot} = this, {sheet} = plot;
    if (sheet.phases && !sheet.time) return;
    const ticks = Math.max(2, Math.floor((plot.right - plot.left) / 110)), at = [];
    for (let k = 0; k <= ticks; k++)
      at.push(this.columnOf(sheet, this.from + k * (this.to - this.from) / ticks));
    let digits = 0;
    for (let k = 1; sheet.time && k <= ticks; k++) {
      const gap = sheet.time[at[k]] - sheet.time[at[k - 1]];
      while (gap > 0 && digits < 4 && gap < 10 ** -digits) digits++;
    }
    at.forEach((i, k) => {
      const x = plot.left + k * (plot.right - plot.left) / ticks;
      this.rule(g, x, plot.bottom, x, plot.bottom + 4, color('--axis'));
      const text = sheet.time ? clock(sheet.time[i], digits) : number(sheet.entry[i]);
      this.label(g, text, x, plot.bottom + 17, 'center', color('--quiet'));
    });
  }

  drawPhases(g) {
    const {plot, whole} = this, y = plot.bottom + 19 * this.rows - 21;
    const scale = (whole.end - whole.first) / whole.count;
    for (const [first, end, name] of whole.phases || []) {
      const x1 = Math.max(plot.left, plot.x(whole.first + first * scale));
      const x2 = Math.min(plot.right, plot.x(whole.first + end * scale));
      if (x2 - x1 < 4) continue;
      g.globalAlpha = .3;
      if (x1 > plot.left) this.rule(g, x1, plot.bottom, x1, plot.bottom + 8, color('--ink'));
      g.globalAlpha = 1;
      if (x2 - x1 < g.measureText(name).width + 6) continue;
      this.label(g, name, (x1 + x2) / 2, y, 'center', color('--quiet'));
    }
  }

  // Every n-th step gets a line and a number; n is 1, 2, 5, 10 ... so that numbers have room.
  stepStride([first, end]) {
    const {plot} = this, {step} = plot.sheet;
    const mean = (plot.right - plot.left) / (step[end - 1] - step[first] + 1);
    let stride = 1;
    for (let decade = 1; stride * mean < 40;)
      stride = nextRound(stride, decade) || (decade *= 10);
    return stride;
  }

  stepName(sheet, i) { return sheet.step[i] ? 'step ' + number(sheet.step[i]) : sheet.setup; }

  drawSteps(g) {
    const {plot} = this, {sheet} = plot, [low, high] = this.columnsInView(sheet);
    const stride = this.stepStride([low, high]), below = plot.bottom + 19 * this.rows;
    let freeFrom = plot.left;
    for (let i = low, end; i < high; i = end) {
      for (end = i + 1; end < high && sheet.step[end] === sheet.step[i];) end++;
      const step = sheet.step[i];
      const x1 = Math.max(plot.left, plot.xOfColumn(i)), x2 = Math.min(plot.right, plot.xOfColumn(end));
      if (step > 1 && step % stride) continue;
      const long = this.stepName(sheet, i), fits = x2 - x1 > g.measureText(long).width + 12;
      const text = fits ? long : step ? number(step) : '';
      const half = g.measureText(text).width / 2;
      const x = Math.max(plot.left + half, Math.min(plot.right - half, (x1 + x2) / 2));
      g.globalAlpha = .16;
      if (i > low) this.rule(g, x1, plot.top, x1, below, color('--ink'));
      g.globalAlpha = 1;
      if (x - half < freeFrom) continue;
      this.label(g, text, x, below - 2, 'center', color('--quiet'));
      freeFrom = x + half + 10;
    }
  }

  drawLayers(g) {
    const {plot} = this, {sheet} = plot, unit = 1 / plot.ratio;
    const colors = sheet.kinds.map(paint), cached = color('--cached');
    plot.chosen.forEach(({column: i}, at) => {
      const x = plot.left + at * unit;
      let base = 0;
      if (this.isShown('reserved')) {
        const y = plot.y(sheet.highest[i]);
        g.fillStyle = cached;
        g.fillRect(x, y, unit, plot.bottom - y);
      }
      sheet.stack.forEach((layer, k) => {
        if (!this.isShown(k) || !layer[i]) return;
        g.fillStyle = colors[k];
        const y = plot.y(base + layer[i]);
        g.fillRect(x, y, unit, plot.y(base) - y);
        base += layer[i];
      });
    });
  }

  // The highest reserved bytes of every column in a pixel, not only of the one chosen for it.
  drawReserved(g) {
    const {plot} = this;
    g.beginPath();
    plot.chosen.forEach(({highest}, at) => {
      const y = plot.y(highest);
      g.lineTo(plot.left + at / plot.ratio, y);
      g.lineTo(plot.left + (at + 1) / plot.ratio, y);
    });
    g.strokeStyle = color('--ink');
    g.lineWidth = 1.2;
    g.stroke();
  }

  drawLimit(g) {
    const {plot, whole} = this;
    if (!this.hasLimit() || whole.limit > plot.highest) return;
    g.setLineDash([6, 4]);
    const y = plot.y(whole.limit);
    this.rule(g, plot.left, y, plot.right, y, color('--alarm'), 1.4);
    g.setLineDash([]);
  }

  drawMark(g, kind, x, y) {
    const shapes = {
      ooms: [[-6, -5], [6, -5], [0, 6]],
      retries: [[0, -4], [4, 0], [0, 4], [-4, 0]],
      empties: [[-2.5, -2.5], [2.5, -2.5], [2.5, 2.5], [-2.5, 2.5]],
    };
    g.beginPath();
    shapes[kind].forEach(([dx, dy]) => g.lineTo(x + dx, y + dy));
    g.closePath();
    g.fillStyle = color({ooms: '--alarm', retries: '--page', empties: '--quiet'}[kind]);
    g.fill();
    g.strokeStyle = color(kind === 'empties' ? '--quiet' : '--alarm');
    g.lineWidth = 1.4;
    g.stroke();
  }

  // Marks that would cover each other become one.
  drawMarks(g, kind, y) {
    const {plot} = this, [low, high] = this.columnsInView(plot.sheet);
    let last = -99;
    for (const mark of plot.sheet.marks) {
      const x = plot.xOfColumn(mark.column);
      if (!mark[kind] || mark.column < low || mark.column >= high || x - last < 9) continue;
      if (kind === 'ooms') this.rule(g, x, y, x, plot.bottom, color('--alarm'), 1.2);
      this.drawMark(g, kind, x, y);
      last = x;
    }
  }

  draw() {
    if (!this.whole || !this.whole.count || !this.box.clientWidth) return;
    this.measure();
    const g = this.prepare(this.base);
    this.drawBytes(g);
    this.drawLayers(g);
    if (this.isShown('reserved')) this.drawReserved(g);
    this.drawSteps(g);
    this.drawTimes(g);
    this.drawPhases(g);
    this.drawLimit(g);
    this.drawMarks(g, 'empties', 8);
    this.drawMarks(g, 'retries', 8);
    this.drawMarks(g, 'ooms', 22);
    this.drawCursor();
  }

  drawCursor() {
    const {plot, drag} = this, g = this.prepare(this.over);
    if (drag) {
      g.globalAlpha = .25;
      g.fillStyle = color('--accent');
      g.fillRect(drag.start, plot.top, drag.now - drag.start, plot.bottom - plot.top);
      return;
    }
    if (this.cursor < this.from || this.cursor >= this.to) return;
    const x = plot.x(this.cursor), y = plot.y(this.shownTotal(plot.sheet, this.column));
    this.rule(g, x, plot.top, x, plot.bottom, color('--ink'));
    g.beginPath();
    g.arc(x, y, 4, 0, 7);
    g.fillStyle = color('--page');
    g.fill();
    g.strokeStyle = color('--ink');
    g.lineWidth = 1.5;
    g.stroke();
  }

  // ---- what the cursor shows ----

  entry(sheet, i) { return sheet.unit + ' ' + number(sheet.entry[i]); }
  when(sheet, i) { return sheet.time ? clock(sheet.time[i], 3) : this.entry(sheet, i); }
  where(sheet, i) { return sheet.place ? sheet.place[i] : this.stepName(sheet, i); }

  holders(sheet, i) {
    const made = [];
    for (let k = 0; k < sheet.held[i].length; k += 2)
      made.push({name: sheet.lines[sheet.held[i][k]], bytes: sheet.held[i][k + 1]});
    return made;
  }

  // Marks are rare and thin: what lies within two pixels counts.
  marksAt(sheet, i) {
    const [low, high] = this.columnsInView(sheet);
    const reach = 2 * (high - low) / (this.plot.right - this.plot.left);
    const near = sheet.marks.filter(m => Math.abs(m.column - i) <= reach), said = [];
    if (near.some(m => m.ooms)) said.push('out of memory');
    if (near.some(m => m.retries)) said.push('cache freed to retry');
    if (near.some(m => m.empties)) said.push('empty_cache()');
    return said.join(', ');
  }

  fillTip() {
    const {sheet} = this, i = this.column, {tip} = this, said = this.marksAt(sheet, i);
    const row = (className, ...parts) => element('div', className ? 'row ' + className : 'row', ...parts);
    const amount = (name, b) => row('', element('span', '', name), element('b', '', bytes(b)));
    tip.replaceChildren(
      row('', element('b', '', this.where(sheet, i)),
          element('span', '', sheet.time ? this.when(sheet, i) : '')),
      row('', element('span', '', sheet.unit), element('span', '', number(sheet.entry[i]))),
      element('hr'), amount('allocated', sheet.allocated[i]), amount('reserved', sheet.reserved[i]));
    if (said) tip.append(element('b', 'alarm', said));
    tip.append(element('hr'));
    for (const k of sheet.present.filter(p => sheet.stack[p][i]).reverse())
      tip.append(row('', swatch(sheet.kinds[k]), element('span', '', sheet.kinds[k][0]),
                     element('span', '', bytes(sheet.stack[k][i]))));
    if (!sheet.stacks) return;
    tip.append(element('hr'), ...this.holders(sheet, i).map(h =>
      row('code', element('span', '', h.name), element('span', '', bytes(h.bytes)))));
  }

  placeTip() {
    const {plot, tip} = this, x = plot.x(this.cursor), room = 16;
    const fitsRight = x + room + tip.offsetWidth < plot.width;
    tip.style.left = Math.max(0, fitsRight ? x + room : x - room - tip.offsetWidth) + 'px';
  }

  // ---- moving about ----

  moveTo(event, showTip) {
    const {sheet} = this;
    this.cursor = Math.max(this.from, Math.min(this.to - 1e-6, event));
    this.isMoved = true;
    this.onCursor(sheet, this.column);
    this.tip.hidden = !showTip;
    if (showTip) this.fillTip(), this.placeTip();
    this.drawCursor();
  }

  // By that many pixels, or to the next column if those are wider.
  moveBy(pixels) {
    const {plot, sheet} = this, wide = (sheet.end - sheet.first) / sheet.count;
    const pixel = (this.to - this.from) / (plot.right - plot.left);
    const column = this.column + Math.sign(pixels) * Math.max(1, Math.round(Math.abs(pixels) * pixel / wide));
    this.moveTo(this.eventOf(sheet, Math.max(0, Math.min(sheet.count - 1, column))), true);
  }

  zoom(first, end) {
    const {whole} = this, least = Math.min(whole.end - whole.first, 8);
    const size = Math.min(whole.end - whole.first, Math.max(least, end - first));
    this.from = Math.max(whole.first, Math.min(first, whole.end - size));
    this.to = this.from + size;
    this.tip.hidden = true;
    this.draw();
    this.onView(this.from, this.to);
  }

  zoomAt(event, factor) {
    const {from, to} = this;
    this.zoom(event - (event - from) * factor, event + (to - event) * factor);
  }

  zoomOut() { this.zoom(this.whole.first, this.whole.end); }

  showPeak() {
    const peak = this.eventOf(this.whole, this.whole.peak);
    if (peak < this.from || peak >= this.to) this.zoomOut();
    this.moveTo(peak, true);
    this.isMoved = false;
  }

  press(e) {
    const step = e.shiftKey ? 20 : 1, inside = this.cursor >= this.from && this.cursor < this.to;
    const middle = inside ? this.cursor : (this.from + this.to) / 2;
    const keys = {
      ArrowLeft: () => this.moveBy(-step),
      ArrowRight: () => this.moveBy(step),
      Home: () => this.moveTo(this.from, true),
      End: () => this.moveTo(this.to, true),
      p: () => this.showPeak(),
      '+': () => this.zoomAt(middle, .5),
      '=': () => this.zoomAt(middle, .5),
      '-': () => this.zoomAt(middle, 2),
      Escape: () => this.zoomOut(),
    };
    if (e.ctrlKey || e.metaKey || e.altKey || !keys[e.key]) return;
    e.preventDefault();
    keys[e.key]();
  }

  listen(wheel) {
    const {over} = this, ready = () => this.plot;
    over.onpointermove = e => {
      if (!ready()) return;
      if (!this.drag) return this.moveTo(this.plot.event(e.offsetX), true);
      this.drag.now = Math.max(this.plot.left, Math.min(this.plot.right, e.offsetX));
      this.drawCursor();
    };
    over.onpointerdown = e => {
      if (!ready() || e.button || e.pointerType === 'touch') return;
      over.setPointerCapture(e.pointerId);
      this.drag = {start: e.offsetX, now: e.offsetX};
      this.tip.hidden = true;
    };
    over.onpointerup = () => {
      if (!this.drag) return;
      const {start, now} = this.drag, {plot} = this;
      this.drag = null;
      if (Math.abs(now - start) > 5) this.zoom(plot.event(Math.min(start, now)), plot.event(Math.max(start, now)));
      else this.moveTo(plot.event(now), true);
    };
    over.onpointercancel = () => { this.drag = null; this.drawCursor(); };
    over.onpointerleave = () => { this.tip.hidden = true; };
    over.onblur = () => { this.tip.hidden = true; };
    over.ondblclick = () => this.zoomOut();
    over.onkeydown = e => { if (ready()) this.press(e); };
    if (wheel) over.addEventListener('wheel', e => {
      if (!ready()) return;
      e.preventDefault();
      if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
        const by = e.deltaX * (this.to - this.from) / (this.plot.right - this.plot.left);
        this.zoom(this.from + by, this.to + by);
      } else this.zoomAt(this.plot.event(e.offsetX), 1.0015 ** e.deltaY);
    }, {passive: false});
    new ResizeObserver(() => this.draw()).observe(this.box);
    isDark.addEventListener('change', () => this.draw());
  }
}
