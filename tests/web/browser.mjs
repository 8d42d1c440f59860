// browser.mjs: Chromium and the page in it, for the tests and the benchmark. page.sh gives the arguments.
import fs from 'node:fs';
import {createRequire} from 'node:module';
import os from 'node:os';
import path from 'node:path';
import {pathToFileURL} from 'node:url';

const [, , browserPath, , pagePath] = process.argv;
const {chromium} = createRequire(process.env.PLAYWRIGHT)('playwright-core');
export const work = fs.mkdtempSync(path.join(os.tmpdir(), 'plimsoll-page-'));
export const url = pathToFileURL(pagePath).href;

export const browser = await chromium.launchPersistentContext(path.join(work, 'profile'), {
  executablePath: browserPath, viewport: {width: 1360, height: 900},
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync'],
});
browser.setDefaultTimeout(60000);
export const requests = [], mistakes = [];
browser.on('request', request => requests.push(request.url()));

export async function open(hash = '', {width = 1360, height = 900, scheme = 'light'} = {}) {
  const page = await browser.newPage();
  page.on('pageerror', error => mistakes.push(error.stack));
  page.on('console', message => { if (message.type() === 'error') mistakes.push(message.text()); });
  await page.emulateMedia({colorScheme: scheme});
  await page.setViewportSize({width, height});
  await page.goto(url + hash);
  if (!hash.startsWith('#snapshot')) await settled(page);
  else await page.waitForFunction(() => typeof engine === 'object');
  return page;
}

// Waits for the answer to the newest settings.
export const settled = page => page.waitForFunction(() => isSettled());

// Does something that changes the settings, and waits for all answers to it.
export async function changed(page, act) {
  const before = await page.evaluateHandle(() => plan.request);
  await act();
  await page.waitForFunction(request => plan.request !== request && isSettled(), before);
}

export const planned = page => page.waitForFunction(() => !document.querySelector('#ladder').classList.contains('stale') &&
  !/Looking/.test(document.querySelector('#ladder-state').textContent));
export const text = (page, selector) => page.locator(selector).innerText();

// The exact bytes in an element: its <data> elements in order.
export const exact = (page, selector) => page.locator(selector + ' data').evaluateAll(all => all.map(one => Number(one.value)));

export async function openSnapshot(page, file) {
  await page.setInputFiles('#snapshot-file', file);
  await page.waitForFunction(() => !document.querySelector('#snapshot-problem').hidden || (!document.querySelector('#report').hidden &&
    document.querySelector('#snapshot-title').textContent && document.querySelector('#fragmentation').childElementCount));
}

// The milliseconds from a change of the micro batch until numbers and curve are drawn, for so many changes.
export function changeTimes(page, count) {
  return page.evaluate(async count => {
    const times = [], range = document.querySelector('input[name=batch]'), drawn = {showNumbers: 0, showCurve: 0};
    let noticed = () => {};
    for (const name in drawn) {
      const act = window[name];
      window[name] = (...given) => { act(...given); drawn[name]++; noticed(); };
    }
    wholly.act = async () => {}; // comes when the slider rests
    for (let i = 0; i < count; i++) {
      const before = {...drawn}, began = performance.now();
      const isDrawn = () => drawn.showNumbers > before.showNumbers && drawn.showCurve > before.showCurve;
      range.value = 1 + i % 8;
      range.dispatchEvent(new Event('input', {bubbles: true}));
      await new Promise(resolve => { noticed = () => { if (isDrawn()) resolve(); }; });
      document.body.getBoundingClientRect(); // laid out
      times.push(performance.now() - began);
      while (quickly.isBusy || curve.isBusy) await new Promise(resolve => setTimeout(resolve, 5));
    }
    return times;
  }, count);
}

export async function end() {
  await browser.close();
  fs.rmSync(work, {recursive: true, force: true});
}
