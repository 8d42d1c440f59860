// The system of a WebAssembly module in a page: files that are held in memory or read from a Blob in pieces, a clock,
// and nothing else. The module sees them through WASI (preview 1), which is what wasi-libc calls. Nothing can be written,
// except texts to standard output and error, which are handed to `say`.
//
//   const files = new Files({'train.yaml': 'base_model: ...', 'snapshot.pickle': blob});
//   const instance = new WebAssembly.Instance(module, wasiImports(module, {files, memory}));
//
// Every script of this folder has each import and export on a line of its own, so that tools/page.py can leave these lines
// out and join several scripts into one.

const errno = {BADF: 8, INVAL: 28, ISDIR: 31, NOENT: 44, NOSYS: 52, NOTDIR: 54, ROFS: 69};
const kindOf = {characters: 2, folder: 3, file: 4};
const firstFolder = 3;         // the descriptor of the root
const piece = 4 * 1024 * 1024; // a Blob is read in pieces of this size

// ---- files ----

// A folder is a Map of names; a file is {size, read(at, end)}, where read returns a Uint8Array.
function fileOf(content) {
  if (typeof content === 'string') content = new TextEncoder().encode(content);
  if (content instanceof Uint8Array)
    return {size: content.length, read: (at, end) => content.subarray(at, end)};
  let from = 0, held = new Uint8Array(0);
  const read = (at, end) => {
    if (at < from || at >= from + held.length) {
      held = new Uint8Array(new FileReaderSync().readAsArrayBuffer(content.slice(at, Math.max(end, at + piece))));
      from = at;
    }
    return held.subarray(at - from, end - from);
  };
  return {size: content.size, read};
}

class Files {
  constructor(contents = {}) {
    this.root = new Map();
    this.replace(contents);
  }

  replace(contents) {
    this.root.clear();
    for (const [path, content] of Object.entries(contents)) this.add(path, content);
  }

  // Content: a text, a Uint8Array or (in a worker) a Blob.
  add(path, content) {
    const parts = path.split('/').filter(part => part && part !== '.'), name = parts.pop();
    let folder = this.root;
    for (const part of parts) {
      if (!(folder.get(part) instanceof Map)) folder.set(part, new Map());
      folder = folder.get(part);
    }
    folder.set(name, fileOf(content));
  }

  // The file or folder at a path below a folder (an array of folders, the root first), or the errno.
  find(above, path) {
    const trail = path.startsWith('/') ? [this.root] : [...above];
    for (const part of path.split('/')) {
      const at = trail[trail.length - 1];
      if (!(at instanceof Map)) return errno.NOTDIR;
      if (part === '' || part === '.') continue;
      if (part !== '..') {
        if (!at.has(part)) return errno.NOENT;
        trail.push(at.get(part));
      } else if (trail.length > 1) {
        trail.pop();
      }
    }
    return trail;
  }
}

// ---- the calls ----

class Exit extends Error {}

function wasiImports(module, {files, memory, say = () => {}}) {
  const open = new Map([[0, {kind: 'characters'}], [1, {kind: 'characters'}], [2, {kind: 'characters'}],
    [firstFolder, {kind: 'folder', trail: [files.root]}]]);
  const numbers = new Map(); // of files and folders: their inodes
  const view = () => new DataView(memory.buffer);
  const bytes = (at, length) => new Uint8Array(memory.buffer, at, length);
  const text = (at, length) => new TextDecoder().decode(bytes(at, length));
  const numberOf = node => {
    if (!numbers.has(node)) numbers.set(node, BigInt(numbers.size + 1));
    return numbers.get(node);
  };

  function openNode(trail) {
    const node = trail[trail.length - 1];
    return node instanceof Map ? {kind: 'folder', trail} : {kind: 'file', file: node, at: 0};
  }

  function putStat(at, node) {
    const v = view(), isFolder = node instanceof Map;
    bytes(at, 64).fill(0);
    if (!node) return v.setUint8(at + 16, kindOf.characters);
    v.setBigUint64(at + 8, numberOf(node), true);
    v.setUint8(at + 16, isFolder ? kindOf.folder : kindOf.file);
    v.setBigUint64(at + 24, 1n, true);
    v.setBigUint64(at + 32, BigInt(isFolder ? 0 : node.size), true);
  }

  const nodeOf = entry => entry.kind === 'folder' ? entry.trail[entry.trail.length - 1] : entry.file;

  // Runs `act` for each buffer of a list until it says 0 bytes; returns the sum.
  function overBuffers(list, count, act) {
    let sum = 0;
    for (let i = 0; i < count; i++) {
      const v = view(), length = v.getUint32(list + 8 * i + 4, true);
      const done = act(v.getUint32(list + 8 * i, true), length);
      sum += done;
      if (done < length) break;
    }
    return sum;
  }

  const calls = {
    fd_prestat_get(fd, out) {
      if (fd !== firstFolder) return errno.BADF;
      view().setUint32(out, 0, true);
      view().setUint32(out + 4, 1, true);
      return 0;
    },
    fd_prestat_dir_name(fd, out) {
      bytes(out, 1)[0] = '/'.charCodeAt(0);
      return fd === firstFolder ? 0 : errno.BADF;
    },
    fd_fdstat_get(fd, out) {
      const entry = open.get(fd);
      if (!entry) return errno.BADF;
      bytes(out, 24).fill(0);
      view().setUint8(out, kindOf[entry.kind]);
      bytes(out + 8, 16).fill(0xff); // every right; calls that are not possible return an error
      return 0;
    },
    fd_fdstat_set_flags: fd => open.has(fd) ? 0 : errno.BADF,
    fd_close: fd => open.delete(fd) ? 0 : errno.BADF,
    fd_filestat_get(fd, out) {
      if (!open.has(fd)) return errno.BADF;
      putStat(out, nodeOf(open.get(fd)));
      return 0;
    },
    path_filestat_get(fd, flags, path, length, out) {
      const entry = open.get(fd), trail = entry?.kind === 'folder' && files.find(entry.trail, text(path, length));
      if (!Array.isArray(trail)) return trail || errno.BADF;
      putStat(out, trail[trail.length - 1]);
      return 0;
    },
    path_open(fd, dirFlags, path, length, flags, rights, inherited, fdFlags, out) {
      const entry = open.get(fd), trail = entry?.kind === 'folder' && files.find(entry.trail, text(path, length));
      const [creates, mustBeFolder, truncates] = [flags & 1, flags & 2, flags & 8];
      if (!Array.isArray(trail)) return trail === errno.NOENT && creates ? errno.ROFS : trail || errno.BADF;
      if (truncates) return errno.ROFS;
      const opened = openNode(trail);
      if (mustBeFolder && opened.kind !== 'folder') return errno.NOTDIR;
      let number = firstFolder + 1;
      while (open.has(number)) number++;
      open.set(number, opened);
      view().setUint32(out, number, true);
      return 0;
    },
    path_readlink: () => errno.INVAL, // nothing is a link
    fd_read(fd, list, count, out) {
      const entry = open.get(fd);
      if (!entry || entry.kind === 'folder') return entry ? errno.ISDIR : errno.BADF;
      view().setUint32(out, entry.kind !== 'file' ? 0 : overBuffers(list, count, (at, length) => {
        let done = 0;
        while (done < length && entry.at < entry.file.size) {
          const read = entry.file.read(entry.at, Math.min(entry.at + length - done, entry.file.size));
          if (!read.length) break;
          bytes(at + done, read.length).set(read);
          done += read.length;
          entry.at += read.length;
        }
        return done;
      }), true);
      return 0;
    },
    fd_write(fd, list, count, out) {
      if (fd !== 1 && fd !== 2) return errno.BADF;
      view().setUint32(out, overBuffers(list, count, (at, length) => (say(text(at, length)), length)), true);
      return 0;
    },
    fd_seek(fd, offset, whence, out) {
      const entry = open.get(fd);
      if (!entry || entry.kind !== 'file') return entry ? errno.INVAL : errno.BADF;
      const to = Number(offset) + [0, entry.at, entry.file.size][whence];
      if (!(to >= 0)) return errno.INVAL;
      entry.at = to;
      view().setBigUint64(out, BigInt(to), true);
      return 0;
    },
    fd_readdir(fd, buffer, size, cookie, out) {
      const entry = open.get(fd);
      if (entry?.kind !== 'folder') return entry ? errno.NOTDIR : errno.BADF;
      const items = [...nodeOf(entry)];
      let used = 0;
      for (let i = Number(cookie); i < items.length && used < size; i++) {
        const name = new TextEncoder().encode(items[i][0]), item = new Uint8Array(24 + name.length);
        const v = new DataView(item.buffer);
        v.setBigUint64(0, BigInt(i + 1), true);
        v.setBigUint64(8, numberOf(items[i][1]), true);
        v.setUint32(16, name.length, true);
        v.setUint8(20, items[i][1] instanceof Map ? kindOf.folder : kindOf.file);
        item.set(name, 24);
        bytes(buffer + used, Math.min(item.length, size - used)).set(item.subarray(0, size - used));
        used += Math.min(item.length, size - used);
      }
      view().setUint32(out, used, true);
      return 0;
    },
    environ_sizes_get(count, size) {
      view().setUint32(count, 0, true);
      view().setUint32(size, 0, true);
      return 0;
    },
    environ_get: () => 0,
    clock_time_get(id, precision, out) {
      const ms = id === 0 ? Date.now() : performance.now();
      view().setBigUint64(out, BigInt(Math.round(ms * 1e6)), true);
      return 0;
    },
    random_get(at, length) {
      for (let done = 0; done < length; done += 65536)
        bytes(at + done, Math.min(65536, length - done)).set(crypto.getRandomValues(new Uint8Array(Math.min(65536, length - done))));
      return 0;
    },
    proc_exit(code) { throw new Exit('the module ended with ' + code); },
  };

  // Above 2 GiB, addresses come as negative numbers. (64-bit numbers come as BigInt; none of them is an address.)
  const withoutSign = value => typeof value === 'number' ? value >>> 0 : value;
  // Other calls of the module are not possible here.
  const imports = {env: {memory}};
  for (const {module: from, name} of WebAssembly.Module.imports(module)) {
    const call = calls[name] || (() => errno.NOSYS);
    if (from !== 'env') (imports[from] ??= {})[name] = (...values) => call(...values.map(withoutSign));
  }
  return imports;
}

export {Files, wasiImports};
