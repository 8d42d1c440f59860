// The settings of the Plan view: what the sliders and lists set in the request of an estimate. A request's members are
// the options of `plimsoll estimate` with _ in place of -. Members without a control are shown as "other options".

const numbers = new Set(['batch', 'seq', 'labels', 'target_seq', 'lora_rank', 'lora_alpha', 'lora_dropout',
  'projection_rank', 'accumulate', 'loss_chunk', 'columns', 'cached_batch', 'answer_seq', 'world', 'nodes', 'network',
  'steps']);
const flags = new Set(['dora', 'checkpoint', 'reentrant', 'in_backward', 'no_clip', 'neftune', 'torchtune', 'liger',
  'no_reshard', 'bucket_views', 'delete_outputs']);

const counts = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256];
const lengths = [128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
  65536, 98304, 131072];
const ranks = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

// {text}: one line, {slider}: a number, {choice}: one of several sets of members ({} is the default); `when` says for
// which requests it is of use.
const controls = [
  {group: 'Model and GPU', rows: [
    {text: 'model', label: 'Model', list: 'models', help: 'a name, or paste a config.json above'},
    {text: 'gpu', label: 'GPU', list: 'gpus', help: 'a name, or its memory: 24GiB'},
  ]},
  {group: 'Batch', rows: [
    {slider: 'batch', label: 'Micro batch', values: counts, unset: 1},
    {slider: 'accumulate', label: 'Accumulation', values: counts, unset: 1},
    {slider: 'seq', label: 'Sequence length', values: lengths, unset: 2048},
    {choice: 'Padding', options: [['none, or packed', {}], ['to the longest', {mask: 'longest'}], ['to a fixed length', {mask: 'pad'}],
      ['all ones', {mask: 'ones'}], ['packed, positions restart', {mask: 'packed'}]]},
  ]},
  {group: 'What is trained', rows: [
    {choice: 'Parameters', segments: true, options: [['LoRA', {lora_rank: 16}], ['all', {}]], by: r => r.lora_rank ? 0 : 1,
      drops: ['lora_rank', 'lora_targets', 'lora_dropout', 'lora_alpha', 'dora']},
    {slider: 'lora_rank', label: 'LoRA rank', values: ranks, unset: 16, when: r => r.lora_rank},
    {text: 'lora_targets', label: 'LoRA targets', list: 'targets', placeholder: 'all-linear', when: r => r.lora_rank},
    {choice: 'Frozen weights', options: [['as they are', {}], ['4-bit (nf4)', {weights: 'nf4'}],
      ['4-bit, double (nf4-double)', {weights: 'nf4-double'}], ['8-bit (int8)', {weights: 'int8'}]]},
  ]},
  {group: 'Memory savers', rows: [
    {choice: 'Checkpointing', segments: true, options: [['off', {}], ['on', {checkpoint: true}], ['reentrant', {reentrant: true}]],
      by: r => r.reentrant ? 2 : r.checkpoint ? 1 : 0},
    {choice: 'Loss', options: [['all logits at once', {}], ['in chunks (TRL)', {loss: 'chunked'}], ['Liger, fused', {loss: 'fused'}],
      ['in chunks, in my loop', {loss: 'chunked-loop'}], ['in eighths (torchtune)', {loss: 'eighths'}],
      ['in eighths, logits first', {loss: 'eighths-listed'}], ['contrastive', {loss: 'contrastive'}]]},
    {choice: 'Liger kernels', segments: true, options: [['off', {}], ['on', {liger: true}]]},
    {choice: 'Attention', segments: true, options: [['sdpa', {}], ['flash', {attention: 'flash'}], ['eager', {attention: 'eager'}]]},
    {choice: 'Optimizer', member: 'optimizer', knob: 'optimizer', unset: 'adamw'},
    {choice: 'Offload to the host', options: [['nothing', {}], ['activations', {offload: 'activations'}],
      ['checkpoints', {offload: 'checkpoints'}], ['optimizer', {offload: 'optimizer'}], ['parameters', {offload: 'parameters'}]]},
    {choice: 'Allocator', segments: true, options: [['default', {}], ['expandable', {alloc_conf: 'expandable_segments:True'}]]},
  ]},
  {group: 'Precision', rows: [
    {choice: 'Parameters in', segments: true, options: [['checkpoint’s', {}], ['bf16', {dtype: 'bf16'}], ['fp16', {dtype: 'fp16'}], ['fp32', {dtype: 'fp32'}]]},
    {choice: 'Autocast', segments: true, options: [['none', {}], ['bf16', {amp: 'bf16'}], ['fp16', {amp: 'fp16'}]]},
  ]},
  {group: 'Several GPUs', rows: [
    {choice: 'Sharding', options: [['none', {}], ['DDP', {strategy: 'ddp'}], ['FSDP2', {strategy: 'fsdp2'}],
      ['ZeRO 1', {strategy: 'zero1'}], ['ZeRO 2', {strategy: 'zero2'}], ['ZeRO 3', {strategy: 'zero3'}]],
      also: r => r.strategy && !r.world ? {world: 2} : {}},
    {slider: 'world', label: 'GPUs', values: [1, 2, 3, 4, 6, 8, 16, 24, 32, 48, 64, 128, 256], unset: 1, when: r => r.strategy || r.world > 1},
  ]},
  {group: 'Program', rows: [
    {choice: 'Training loop', options: [['my own', {}], ['transformers, TRL', {loop: 'trainer'}], ['my own, bare', {loop: 'bare'}],
      ['my own, keeps only the loss', {loop: 'loss-only'}]]},
    {choice: 'Method', member: 'method', options: [['texts (SFT)', {}], ['DPO', {method: 'dpo'}], ['ORPO', {method: 'orpo'}],
      ['CPO', {method: 'cpo'}], ['SimPO', {method: 'simpo'}], ['KTO', {method: 'kto'}], ['reward model', {method: 'reward'}]]},
    {text: 'versions', label: 'Versions', placeholder: 'transformers=4.57,torch=2.9'},
  ]},
];

// ---- requests as text ---------------------------------------------------------------------------------------

// A member as it was typed: numbers and flags become what the library expects, everything else stays text.
function memberOf(name, text) {
  if (numbers.has(name) && /^\d+(\.\d+)?$/.test(text)) return Number(text);
  if (flags.has(name)) return text !== 'false' && text !== 'off';
  return text;
}

const isOff = value => value === undefined || value === null || value === false || value === '';

// The members of a choice's options, and the one that the request has (-1: another).
const membersOf = row => row.member ? [row.member] : [...new Set(row.options.flatMap(([, set]) => Object.keys(set)))];
const matches = (request, row, set) => membersOf(row).every(name => isOff(set[name]) ? isOff(request[name]) : request[name] === set[name]);
const chosenOf = (request, row) => row.by ? row.by(request) : row.options.findIndex(([, set]) => matches(request, row, set));

const controlled = new Set(controls.flatMap(({rows}) => rows.flatMap(row => row.text || row.slider || membersOf(row))));

const quote = text => /^[\w@%+=:,.\/-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'";

function commandOf(request, modelFile) {
  const words = ['plimsoll', 'estimate'];
  for (const [name, value] of Object.entries(request)) {
    if (isOff(value) || name === 'timeline') continue;
    const option = '--' + name.replaceAll('_', '-');
    if (value === true) words.push(option);
    else for (const one of Array.isArray(value) ? value : [value])
      words.push(option, name === 'model' && typeof one === 'object' ? modelFile : quote(String(one)));
  }
  return words.join(' ');
}

// ---- the link -----------------------------------------------------------------------------------------------

const base64 = buffer => btoa(Array.from(new Uint8Array(buffer), b => String.fromCharCode(b)).join(''))
  .replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
const unbase64 = text => Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), c => c.charCodeAt(0));
const through = (bytes, stream) => new Response(new Blob([bytes]).stream().pipeThrough(stream));

const pack = async text => base64(await through(new TextEncoder().encode(text), new CompressionStream('deflate-raw')).arrayBuffer());
const unpack = text => through(unbase64(text), new DecompressionStream('deflate-raw')).text();

// #plan?model=qwen2.5-7b&batch=2; what was pasted is compressed.
async function linkOf(view, request, pasted) {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(request)) {
    if (isOff(value) || typeof value === 'object' && !Array.isArray(value)) continue;
    for (const one of Array.isArray(value) ? value : [value]) params.append(name, one);
  }
  let text = params.toString().replaceAll('%2C', ',').replaceAll('%3A', ':').replaceAll('%3D', '=').replaceAll('%2F', '/');
  if (pasted) text += `&pasted=${pasted.packed ??= await pack(pasted.text)}`;
  return `#${view}${text ? '?' + text : ''}`;
}

async function readLink(hash) {
  const [view, query = ''] = hash.replace(/^#/, '').split(/\?(.*)/s);
  const request = {};
  let pasted = null;
  for (const [name, text] of new URLSearchParams(query)) {
    if (name === 'pasted') pasted = {text: await unpack(text), packed: text};
    else if (/^[a-z][a-z_]*$/.test(name)) {
      const value = memberOf(name, text), before = request[name];
      request[name] = before === undefined ? value : [].concat(before, value);
    }
  }
  return {view: view === 'snapshot' ? view : 'plan', request, pasted};
}
