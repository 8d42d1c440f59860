// Asks the library, in workers, so that the page never waits.
//
//   const engine = await startEngine(wasmBytes, workerScript);  // the script: wasi.js, module.js and worker.js in one
//   const answer = await engine.estimate({model: 'qwen2.5-7b', lora_rank: 16, gpu: '4090'}, {signal});
//   const curve = await engine.estimate({...}, {lane: 'curve'});  // beside others: 'quick', 'curve' or 'slow'
//   const plan = await engine.plan({files: ['train.yaml'], gpu: '4090'}, {files: {'train.yaml': text}, signal});
//   const snapshot = await engine.openSnapshot(file);           // a File or Blob, which is read in pieces
//   const moment = await snapshot.moment({event: 1234});
//   snapshot.close();
//
// A question that is answered with an error rejects with an EngineError. One whose `signal` is aborted rejects with an
// AbortError: if it waited, it is never asked; if a plan was being made or a snapshot read, that work ends.

class EngineError extends Error {
  constructor({code, message, hint, file, byte}) {
    super(message);
    Object.assign(this, {name: 'EngineError', code, hint, file, byte});
  }
}

// A worker that is started when it is first asked, and answers one question after the other.
class Lane {
  constructor(start, endsOnAbort) {
    Object.assign(this, {start, endsOnAbort, waiting: [], current: null, worker: null, count: 0});
  }

  ask(name, request, {files, handle, signal} = {}) {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const question = {message: {id: ++this.count, name, request, files, handle}, resolve, reject};
      signal?.addEventListener('abort', () => this.drop(question, signal.reason), {once: true});
      this.waiting.push(question);
      this.next();
    });
  }

  next() {
    if (this.current || !this.waiting.length) return;
    this.current = this.waiting.shift();
    if (!this.worker) {
      this.worker = this.start();
      this.worker.onmessage = event => this.take(event.data);
      this.worker.onerror = event => this.fail(event.message || 'the worker could not be started');
    }
    this.worker.postMessage(this.current.message);
  }

  take({id, answer}) {
    if (this.current?.message.id !== id) return;
    const {resolve, reject} = this.current;
    this.current = null;
    if (answer.error) reject(new EngineError(answer.error));
    else resolve(answer.ok);
    this.next();
  }

  drop(question, reason) {
    const at = this.waiting.indexOf(question);
    if (at < 0 && this.current !== question) return;
    question.reject(reason);
    if (at >= 0) this.waiting.splice(at, 1);
    else if (this.endsOnAbort) this.end();
  }

  fail(message) {
    const question = this.current;
    this.end();
    question?.reject(new EngineError({code: 'stopped', message, hint: null, file: null, byte: null}));
  }

  end() {
    this.worker?.terminate();
    this.worker = this.current = null;
    this.next();
  }

  close() {
    for (const question of [this.current, ...this.waiting.splice(0)])
      question?.reject(new DOMException('closed', 'AbortError'));
    this.end();
  }
}

function browserWorker(script) {
  return new Worker(URL.createObjectURL(new Blob([script], {type: 'text/javascript'})));
}

async function startEngine(wasm, script, makeWorker = browserWorker) {
  const module = await WebAssembly.compile(wasm);
  const start = () => {
    const worker = makeWorker(script);
    worker.postMessage({module});
    return worker;
  };
  const lanes = {quick: new Lane(start, false), curve: new Lane(start, false), slow: new Lane(start, true)};

  async function openSnapshot(file, request = {}, {signal} = {}) {
    const lane = new Lane(start, true), path = file.name || 'snapshot.pickle';
    const ask = (name, question, options) => lane.ask('snapshot_' + name, question, {handle, ...options});
    let handle;
    try {
      handle = await ask('open', {...request, snapshot: path}, {files: {[path]: file}, signal});
    } catch (error) {
      lane.close();
      throw error;
    }
    lane.endsOnAbort = false; // the worker holds the snapshot
    return {
      report: options => ask('report', {}, options),
      replay: (question, options) => ask('replay', question, options),
      timeline: (question, options) => ask('timeline', question, options),
      moment: (question, options) => ask('moment', question, options),
      close: () => lane.close(), // with all its memory
    };
  }

  return {
    estimate: (request, {lane = 'quick', ...options} = {}) => lanes[lane].ask('estimate', request, options),
    settings: (request, options) => lanes.quick.ask('settings', request, options),
    list: (what, options) => lanes.quick.ask('list', what, options),
    plan: (request, options) => lanes.slow.ask('plan', request, options),
    openSnapshot,
  };
}

export {EngineError, startEngine};
