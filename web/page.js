// The page: its two views, links, copying, files that are dropped on it.

const shownView = () => $('snapshot').hidden ? 'plan' : 'snapshot';

function showView(name, {focus = false} = {}) {
  for (const view of ['plan', 'snapshot']) {
    const tab = $('tab-' + view), isShown = view === name;
    $(view).hidden = !isShown;
    tab.setAttribute('aria-selected', isShown);
    tab.tabIndex = isShown ? 0 : -1;
    if (isShown && focus) tab.focus();
  }
  document.title = name === 'plan' ? 'Plimsoll: GPU memory of a training run' : 'Plimsoll: a memory snapshot';
  if (name === 'snapshot') history.replaceState(null, '', '#snapshot');
}

// The Plan view asks only while it is shown.
function visit(name, options) {
  const isNew = shownView() !== name;
  showView(name, options);
  if (isNew && name === 'plan' && engine) refresh();
}

function listenToTabs() {
  for (const name of ['plan', 'snapshot']) {
    $('tab-' + name).onclick = () => visit(name);
    $('tab-' + name).onkeydown = e => {
      if (e.key === 'ArrowLeft' || e.key === 'ArrowRight') visit(name === 'plan' ? 'snapshot' : 'plan', {focus: true});
    };
  }
}

async function copy(button) {
  const text = $(button.dataset.copies).textContent;
  try { await navigator.clipboard.writeText(text); }
  catch { // where the page may not use the clipboard
    const area = element('textarea');
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
    button.focus();
  }
  button.textContent = 'Copied';
  setTimeout(() => { button.textContent = 'Copy'; }, 1500);
}

// A file may be dropped anywhere: a recording, or a configuration.
async function takeFile(file) {
  const start = new Uint8Array(await file.slice(0, 6).arrayBuffer());
  const isText = file.size < 2 ** 21 && /\.(ya?ml|json|py|sh|toml|txt|cfg)$/i.test(file.name);
  if (isText && start[0] !== 0x80) {
    showView('plan');
    await readPasted({text: await file.text(), file: file.name});
  } else {
    showView('snapshot');
    await openSnapshot(file);
  }
}

function listenToDrops() {
  const mark = isOver => document.body.classList.toggle('dropping', isOver);
  addEventListener('dragover', e => { e.preventDefault(); mark(true); });
  addEventListener('dragleave', e => { if (!e.relatedTarget) mark(false); });
  addEventListener('drop', e => {
    e.preventDefault();
    mark(false);
    const [file] = e.dataTransfer.files;
    if (file) takeFile(file);
  });
}

let engine; // of engine.js

// The library lies in the page as base64 of its gzip.
async function moduleBytes() {
  const packed = Uint8Array.from(atob($('wasm').textContent.trim()), c => c.charCodeAt(0));
  return through(packed, new DecompressionStream('gzip')).arrayBuffer();
}

async function start() {
  makeControls();
  listenToTabs();
  listenToPaste();
  listenToSnapshot();
  listenToDrops();
  for (const button of document.querySelectorAll('[data-copies]')) button.onclick = () => copy(button);
  document.querySelector('[data-skip]').onclick = e => {
    e.preventDefault();
    const target = shownView() === 'plan' ? $('verdict') : $('snapshot-title');
    target.tabIndex = -1;
    target.focus();
  };
  const followLink = async () => {
    const link = await readLink(location.hash);
    showView(link.view);
    await openPlan(link);
  };
  addEventListener('hashchange', () => { if (location.hash !== '#snapshot') followLink(); else showView('snapshot'); });
  isDark.addEventListener('change', () => { if (plan.answer) showNumbers(plan.answer); });
  try {
    engine = await startEngine(await moduleBytes(), $('worker').textContent);
    await fillLists();
    await fillDialects();
    await followLink();
  } catch (error) { showFailure(error); }
}

start();
