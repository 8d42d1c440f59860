// page.mjs CHROMIUM PROGRAM PAGE SNAPSHOT: how fast the page is. Prints one JSON object. Started by page.py.
import {changeTimes, end, open, openSnapshot, planned, text} from '../tests/web/browser.mjs';

const snapshot = process.argv[5];
const LORA_7B = '#plan?model=qwen2.5-7b&gpu=RTX+4090&batch=4&accumulate=8&seq=2048&lora_rank=16&amp=bf16&loop=trainer';
const CHANGES = 80;
const found = {};

const began = performance.now();
const page = await open(LORA_7B);
await planned(page);
found.plan_ms = performance.now() - began;
found.planned = await text(page, '#ladder');

const times = (await changeTimes(page, CHANGES)).sort((a, b) => a - b);
found.changes = times.length;
found.change_ms = times[times.length / 2];
found.slow_change_ms = times[Math.floor(0.9 * times.length)];
await page.close();

const other = await open('#snapshot');
other.setDefaultTimeout(300000);
await openSnapshot(other, snapshot);
Object.assign(found, await other.evaluate(() => ({snapshot_ms: view.ms, entries: view.report.entries, peak: view.report.recorded.peak_reserved_bytes})));
await other.close();
await end();
console.log(JSON.stringify(found));
