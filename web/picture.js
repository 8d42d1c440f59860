// The page that --html writes: a chart, its legend, and who holds the memory at the cursor.
const $ = id => document.getElementById(id);
const data = JSON.parse($('data').textContent);
const chart = new MemoryChart($('chart'), {onCursor: show});

function fillTable(sheet, i) {
  const at = i === data.peak ? 'At the peak' : 'At ' + chart.when(sheet, i);
  const held = bytes(sheet.allocated[i]) + (sheet.stacks ? ' held by' : ' held');
  $('when').textContent = `${at}, ${chart.where(sheet, i)}: ${held}`;
  $('rows').replaceChildren(...(sheet.stacks ? chart.holders(sheet, i) : []).map(h => {
    const share = h.bytes / sheet.allocated[i], fill = element('div');
    fill.style.width = 100 * share + '%';
    return element('tr', '', element('td', 'code', h.name), element('td', 'number', bytes(h.bytes)),
                   element('td', 'number', (100 * share).toFixed(1) + ' %'), element('td', 'bar', fill));
  }));
}

function fillLegend() {
  const button = (key, mark, name, b) => {
    const made = element('button', '', mark, element('span', '', name), element('b', '', bytes(b)));
    made.type = 'button';
    made.setAttribute('aria-pressed', chart.isShown(key));
    made.onclick = () => {
      chart.toggle(key);
      made.setAttribute('aria-pressed', chart.isShown(key));
    };
    return element('li', '', made);
  };
  const i = chart.column, line = kind => element('span', 'swatch line ' + kind);
  const items = data.present.map(k => button(k, swatch(data.kinds[k]), data.kinds[k][0], data.stack[k][i]));
  items.push(button('reserved', line('reserved'), 'reserved', data.reserved[i]));
  if (data.limit !== null) items.push(button('limit', line('limit'), 'limit', data.limit));
  $('legend').replaceChildren(...items);
}

function updateLegend(sheet, i) {
  const amounts = $('legend').querySelectorAll('b');
  data.present.forEach((k, at) => { amounts[at].textContent = bytes(sheet.stack[k][i]); });
  amounts[data.present.length].textContent = bytes(sheet.reserved[i]);
}

function show(sheet, i) {
  fillTable(sheet, i);
  updateLegend(sheet, i);
}

function repaint() {
  fillLegend();
  chart.draw();
}

if (data.entry.length) {
  if (data.time) data.time = data.time.map(us => us / 1e6);
  chart.set(data);
  fillLegend();
  fillTable(chart.sheet, chart.column);
  isDark.addEventListener('change', repaint);
  addEventListener('beforeprint', () => { document.documentElement.dataset.print = ''; repaint(); });
  addEventListener('afterprint', () => { delete document.documentElement.dataset.print; repaint(); });
}
