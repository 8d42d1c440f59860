// The library as WebAssembly answers what it answers natively, text for text, also to damaged requests and files, and works
// on after each. The stack is that of a worker in Chromium (kWorkerMaxStackSize in its v8_initializer.cc is 500 KB).
//
// usage: node --stack-size=450 tests/web/web_check.mjs MODULE.wasm DUMP_ANSWERS FOLDER
import {execFileSync} from 'node:child_process';
import {readFileSync} from 'node:fs';
import {webcrypto} from 'node:crypto';
import {Library} from '../../web/module.js';

globalThis.crypto ??= webcrypto; // Node 18

const [wasm, native, folder] = process.argv.slice(2);
const most = {maxBuffer: 2 ** 30, encoding: 'utf8'};
const lines = execFileSync('python3', ['tests/web/requests.py', folder], most).trim().split('\n');
const asked = lines.map(line => JSON.parse(line));
const textOf = request => typeof request === 'string' ? request : JSON.stringify(request);
const input = asked.map(({call, request}) => `${call} ${textOf(request)}\n`).join('');
const alone = {PLIMSOLL_NVML: '/nonexistent'}; // as in a page: no GPU, and no home with a cache of models
const expected = execFileSync(native, {input, env: alone, ...most}).split('\0');

const library = new Library(new WebAssembly.Module(readFileSync(wasm)));
let passed = 0, failed = 0, snapshot;
const slowest = [];

function answer({call, request, files}) {
  const contents = Object.fromEntries(files.map(path => [path, new Uint8Array(readFileSync(path))]));
  if (!call.startsWith('snapshot_')) return library.text(call, request, contents);
  if (call !== 'snapshot_open')
    return snapshot ? library.text(call, request, {}, snapshot) : 'no snapshot is open';
  if (snapshot) library.instance.exports.plim_web_snapshot_close(snapshot);
  const text = library.text(call, request, contents);
  snapshot = JSON.parse(text).ok;
  return snapshot ? '{"ok"}' : text;
}

function firstDifference(got, wanted) {
  let at = 0;
  while (at < got.length && got[at] === wanted[at]) at++;
  return `  native: ${JSON.stringify(wanted.slice(Math.max(0, at - 80), at + 160))}\n` +
         `  wasm:   ${JSON.stringify(got.slice(Math.max(0, at - 80), at + 160))}`;
}

asked.forEach((question, i) => {
  const begin = performance.now();
  let got;
  try {
    got = answer(question);
  } catch (problem) {
    got = `${problem}`;
    library.start();
    snapshot = undefined;
  }
  slowest.push([performance.now() - begin, question]);
  if (got === expected[i]) {
    passed++;
  } else {
    failed++;
    console.log(`${question.call} ${textOf(question.request).slice(0, 300)}\n${firstDifference(got, expected[i] ?? '')}`);
  }
});

// Where a large snapshot has filled the lower half of the memory, addresses are above 2 GiB.
function isTheSameHigh(question) {
  const high = new Library(library.module), {plim_web_alloc} = high.instance.exports;
  for (const size of [2 ** 27, 2 ** 20, 2 ** 14])
    while ((plim_web_alloc(size) >>> 0) < 2 ** 31) continue;
  const {call, request, files} = question;
  const contents = Object.fromEntries(files.map(path => [path, new Uint8Array(readFileSync(path))]));
  return high.text(call, request, contents) === library.text(call, request, contents);
}

for (const name of ['estimate', 'plan', 'replay']) {
  const question = asked.find(({call, request, files}, i) =>
    call === name && typeof request === 'object' && (name === 'estimate' || files.length) && expected[i].startsWith('{"ok"'));
  let isSame = false;
  try { isSame = isTheSameHigh(question); }
  catch (problem) { console.log(`${problem}`); }
  if (isSame) passed++;
  else failed++, console.log(`${name} above 2 GiB differs: ${textOf(question.request).slice(0, 300)}`);
}

if (process.env.SLOWEST)
  for (const [ms, {call, request}] of slowest.sort((a, b) => b[0] - a[0]).slice(0, 15))
    console.log(Math.round(ms), 'ms', call, textOf(request).slice(0, 120));
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
