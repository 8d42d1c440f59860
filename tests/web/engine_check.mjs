// The engine of the page answers from workers: what is asked later is not held up by a plan, an aborted question is not
// answered and does no harm, snapshots are read in pieces, and after whatever goes wrong the next question is answered.
//
// usage: node tests/web/engine_check.mjs MODULE.wasm FOLDER
import {execFileSync} from 'node:child_process';
import {readFileSync, statSync} from 'node:fs';
import {webcrypto} from 'node:crypto';
import {Worker as Thread} from 'node:worker_threads';
import {EngineError, startEngine} from '../../web/engine.js';
import {Library} from '../../web/module.js';

globalThis.crypto ??= webcrypto; // Node 18

const [wasm, folder] = process.argv.slice(2);
const bytes = readFileSync(wasm);
const script = ['wasi', 'module', 'worker']
  .map(name => readFileSync(`web/${name}.js`, 'utf8').replace(/^(import|export) .*$/gm, '')).join('');

// ---- Node's threads as a browser's workers; {path, size} as a Blob ----

const browser = `
  const {parentPort} = require('node:worker_threads'), fs = require('node:fs');
  globalThis.crypto ??= require('node:crypto').webcrypto;
  globalThis.postMessage = message => parentPort.postMessage(message);
  const blob = ({path, size}) => ({size, slice: (from, to) => ({path, from, to: Math.min(to, size)})});
  globalThis.FileReaderSync = class {
    readAsArrayBuffer({path, from, to}) {
      if (to - from > 4 * 1024 * 1024) throw new Error('read ' + (to - from) + ' bytes at once');
      const fd = fs.openSync(path), read = new Uint8Array(to - from);
      fs.readSync(fd, read, 0, read.length, from);
      fs.closeSync(fd);
      return read.buffer;
    }
  };
  globalThis.addEventListener = (type, act) => parentPort.on(type, data => {
    for (const path in data.files) if (data.files[path].path) data.files[path] = blob(data.files[path]);
    act({data});
  });
`;

let threads = 0;

function makeWorker(source) {
  const thread = new Thread(browser + source, {eval: true}), worker = {};
  threads++;
  thread.on('message', data => worker.onmessage({data}));
  thread.on('error', error => worker.onerror(error));
  worker.postMessage = message => thread.postMessage(message);
  worker.terminate = () => (threads--, thread.terminate());
  return worker;
}

// ---- tests ----

let passed = 0, failed = 0;

async function test(name, act) {
  try {
    await act();
    passed++;
  } catch (problem) {
    failed++;
    console.log(`FAIL ${name}: ${problem.stack}`);
  }
}

function check(holds, what) {
  if (!holds) throw new Error(what);
}

async function rejected(promise) {
  return promise.then(() => { throw new Error('was answered'); }, error => error);
}

const engine = await startEngine(bytes, script, makeWorker);
const request = {model: 'qwen2.5-7b', lora_rank: 16, gpu: '4090'};

await test('questions are answered', async () => {
  const answer = await engine.estimate(request);
  check(answer.format_version === 1 && answer.gpu === 'RTX 4090', JSON.stringify(answer));
  const models = await engine.list('models');
  check(JSON.stringify(models).includes('qwen2.5-7b'), 'no such model');
});

await test('an error says what and where', async () => {
  const error = await rejected(engine.estimate({modl: 'gpt2'}));
  check(error instanceof EngineError && error.code === 'argument' && error.message.includes('modl'), String(error));
  check(error.hint.includes('model') && error.byte === 1, JSON.stringify(error));
});

await test('a file of the page is read', async () => {
  const text = readFileSync('tests/fixtures/small/train.yaml', 'utf8');
  const plan = await engine.plan({files: ['train.yaml'], gpu: '24GiB'}, {files: {'train.yaml': text}});
  check(plan.before && plan.ladder.length, JSON.stringify(plan));
  const error = await rejected(engine.plan({files: ['train.yaml'], gpu: '24GiB'}));
  check(error.message.includes('train.yaml'), 'the file is still there');
});

await test('a plan does not hold up an estimate, and an aborted plan ends', async () => {
  const stop = new AbortController();
  const plan = rejected(engine.plan(request, {signal: stop.signal}));
  let isDone = false;
  plan.then(() => isDone = true);
  await engine.estimate(request);
  check(!isDone, 'the plan was there first');
  const before = threads;
  stop.abort();
  check((await plan).name === 'AbortError', 'another error');
  check(threads === before - 1, 'its worker still runs');
  check((await engine.plan({model: 'gpt2', gpu: '8GiB'})).ladder, 'no plan');
});

await test('an aborted question that waits is never asked', async () => {
  const stop = new AbortController(), first = engine.estimate(request);
  const dropped = [1, 2, 3].map(batch => rejected(engine.estimate({...request, batch}, {signal: stop.signal})));
  const last = engine.estimate({...request, batch: 4});
  stop.abort();
  for (const error of await Promise.all(dropped)) check(error.name === 'AbortError', String(error));
  check((await first).fits !== undefined && (await last).fits !== undefined, 'the others were not answered');
  const late = await rejected(engine.estimate(request, {signal: stop.signal}));
  check(late.name === 'AbortError', String(late));
});

await test('a snapshot is read in pieces and looked at', async () => {
  const path = `${folder}/grown.pickle`;
  const recorded = execFileSync('sh', ['-c', 'ls -S tests/truth/allocator/*.pickle.xz | head -1'], {encoding: 'utf8'}).trim();
  execFileSync('python3', ['bench/grow.py', recorded, path, '20000000']);
  const file = {name: 'grown.pickle', path, size: statSync(path).size};
  check(file.size > 4 * 4 * 1024 * 1024, 'this is one piece');
  const snapshot = await engine.openSnapshot(file);
  const report = await snapshot.report(), timeline = await snapshot.timeline({columns: 100});
  check(report.file === 'grown.pickle' && report.exact, JSON.stringify(report).slice(0, 300));
  check(timeline.event.length === timeline.columns, JSON.stringify(timeline).slice(0, 300));
  check((await snapshot.moment({event: timeline.event[50]})).holders, 'nobody holds anything');
  await snapshot.replay({alloc_conf: 'expandable_segments:True'});
  check((await snapshot.report()).simulated_alloc_conf.includes('expandable'), 'the settings are not used');
  const before = threads, waits = rejected(snapshot.report());
  snapshot.close();
  check((await waits).name === 'AbortError' && threads === before - 1, 'it is still open');
});

await test('a file that is no snapshot is an error', async () => {
  const before = threads;
  const error = await rejected(engine.openSnapshot({name: 'train.yaml', path: 'tests/fixtures/small/train.yaml', size: 100}));
  check(error instanceof EngineError && error.message, String(error));
  check(threads === before, 'its worker still runs');
});

await test('too little memory is an error, and the next question is answered', async () => {
  const library = new Library(new WebAssembly.Module(bytes), 24 * 2 ** 20), path = `${folder}/grown.pickle`;
  const files = {'grown.pickle': new Uint8Array(readFileSync(path)).slice()};
  const {error} = library.call('snapshot_open', {snapshot: 'grown.pickle'}, files);
  check(error.code === 'memory' && error.hint, JSON.stringify(error));
  check(library.call('list', 'models').ok, 'no answer');
});

await test('after a trap the next question is answered', async () => {
  const library = new Library(new WebAssembly.Module(bytes)), nowhere = 2 ** 31; // behind all memory
  library.snapshots.add(nowhere);
  check(library.call('snapshot_report', {}, {}, nowhere).error.code === 'stopped', 'it did not trap');
  check(library.call('estimate', request).ok, 'no answer');
  check(library.call('snapshot_report', {}, {}, nowhere).error.message.includes('not open'), 'a lost snapshot is used');
});

console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
