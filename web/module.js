// The library as WebAssembly, called with objects and texts. Runs where it may take its time: in a worker, or in Node.
//
//   const library = new Library(new WebAssembly.Module(bytes));
//   library.call('estimate', {model: 'qwen2.5-7b', gpu: '4090'})  // {ok: {...}} or {error: {message, hint, ...}}
//   library.call('plan', {files: ['train.yaml'], gpu: '4090'}, {'train.yaml': text})
//   library.call('list', 'models')

import {Files, wasiImports} from './wasi.js';

const page = 65536; // bytes of WebAssembly memory

class Library {
  constructor(module, mostBytes = 2 ** 32) {
    Object.assign(this, {module, mostBytes});
    this.start();
  }

  start() {
    this.files = new Files();
    this.memory = new WebAssembly.Memory({initial: 256, maximum: this.mostBytes / page});
    this.said = '';
    this.snapshots = new Set();
    this.instance = new WebAssembly.Instance(this.module, wasiImports(this.module, {
      files: this.files,
      memory: this.memory,
      say: text => this.said += text,
    }));
    this.instance.exports._initialize();
  }

  // The text that a function of the module answers. `files`: a text, a Uint8Array or (in a worker) a Blob for each path;
  // there are no others. `handle`: a snapshot, for the functions that take one.
  text(name, request, files = {}, handle) {
    const {memory} = this, {plim_web_alloc, plim_web_free, ['plim_web_' + name]: act} = this.instance.exports;
    this.files.replace(files);
    const sent = new TextEncoder().encode(typeof request === 'string' ? request : JSON.stringify(request));
    const at = plim_web_alloc(sent.length + 1) >>> 0; // an address, which JavaScript takes for a number with a sign
    if (!at) return noMemory;
    new Uint8Array(memory.buffer, at, sent.length).set(sent);
    new Uint8Array(memory.buffer)[at + sent.length] = 0;
    const answer = (handle === undefined ? act(at) : act(handle, at)) >>> 0;
    plim_web_free(at);
    const all = new Uint8Array(memory.buffer), end = all.indexOf(0, answer);
    const text = new TextDecoder().decode(all.subarray(answer, end));
    plim_web_free(answer);
    return text;
  }

  // The same as an object. Whatever happens, the next call works: after a trap (the stack is full) the module starts again,
  // without the snapshots that were open.
  call(name, request, files, handle) {
    if (handle !== undefined && !this.snapshots.has(handle)) return isClosed;
    try {
      const answer = JSON.parse(this.text(name, request, files, handle));
      if (name === 'snapshot_open' && answer.ok) this.snapshots.add(answer.ok);
      return answer;
    } catch (problem) {
      const message = `this stopped the program: ${problem.message} ${this.said}`.trim();
      this.start();
      return {error: {code: 'stopped', message, hint: 'please report it with what was asked', file: null, byte: null}};
    }
  }
}

const isClosed = {error: {code: 'argument', message: 'this snapshot is not open', hint: 'open the file again',
  file: null, byte: null}};
const noMemory = JSON.stringify({error: {code: 'memory', message: 'the page ran out of memory',
  hint: 'close other tabs, or use the command line', file: null, byte: null}});

export {Library};
