/**
 * What the page's tests share. A test is a script: it opens pages, does what a person does, and throws when something
 * is not as it should be. See internal/proof/page.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { chromium } from 'playwright-core';

export { assert };
export const { BASE, TOKEN, USER_ID } = process.env;

/** How many times slower the browser is, with late answers: it shows what only a busy machine shows. */
const { SLOW } = process.env;

export const phone = { width: 390, height: 844 };
export const desktop = { width: 1280, height: 800 };

/** How long a test waits for what must happen. It is no bound on speed. */
const PATIENCE = Number(process.env.PATIENCE ?? 240_000);

const launch = () => chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'] });
const browser = await launch().catch(launch).catch(launch); // one that crashes as it starts, as on a crowded machine, is started again

/** What must never happen on the page, from any of its tabs: broken policies, uncaught errors. */
const complaints = [];

/**
 * A person's browser: tabs opened in it share its storage.
 * options: those of playwright's newContext, such as {viewport: desktop, colorScheme: 'dark'}.
 */
export async function newBrowser(options = {}) {
  const context = await browser.newContext({ viewport: phone, colorScheme: 'light', locale: 'en-GB', ...options });
  context.setDefaultTimeout(PATIENCE);
  await context.exposeFunction('complain', (text) => complaints.push(text));
  await context.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (event) => globalThis.complain(`policy: ${event.violatedDirective} ${event.blockedURI}`));
  });
  if (SLOW) await slowDown(context);
  context.on('weberror', (error) => complaints.push(`error: ${error.error().stack}`));
  return context;
}

async function slowDown(context) {
  context.on('page', async (tab) => (await context.newCDPSession(tab)).send('Emulation.setCPUThrottlingRate', { rate: Number(SLOW) }));
  await context.route('**/v1/**', async (route) => {
    await new Promise((wake) => setTimeout(wake, 1000 * Math.random()));
    await route.fallback().catch(() => {}); // the page waits for it no more
  });
}

/** Opens a path of the page in a new tab, signed in by the token in the address. */
export async function open(context, path, token = TOKEN) {
  const tab = await context.newPage();
  await tab.goto(`${BASE}${path}#token=${token}`);
  return tab;
}

/** Waits until an assertion holds: a page may need a moment to show what has happened. */
export async function eventually(holds) {
  for (const end = Date.now() + PATIENCE; ; await new Promise((wake) => setTimeout(wake, 50))) {
    try {
      return await holds();
    } catch (error) {
      if (!(error instanceof assert.AssertionError) || Date.now() > end) throw error;
    }
  }
}

/** axe as it is shipped for pages: its module would give them the source, twice the size to read. */
const axe = await readFile(new URL(import.meta.resolve('axe-core/axe.min.js')), 'utf8');

/** axe finds nothing on what the tab shows, at the latest when all of it is shown. */
export async function isAccessible(tab, where) {
  await eventually(async () => {
    if (!await tab.evaluate(() => 'axe' in globalThis)) await tab.evaluate(axe);
    const violations = await tab.evaluate(async () => (await globalThis.axe.run({ resultTypes: ['violations'] })).violations);
    const wrong = (nodes) => nodes.map((node) => `${node.html}\n      ${node.failureSummary}`).join('\n    ');
    const found = violations.map(({ id, help, nodes }) => `${id}: ${help}\n    ${wrong(nodes)}`);
    assert.equal(found.join('\n'), '', `axe at ${where}`);
  });
}

/** How many turns the tab's outbox holds. */
export const unsent = (tab) => tab.evaluate(() => {
  const name = Object.keys(localStorage).find((key) => key.endsWith('.turns'));
  return name ? JSON.parse(localStorage.getItem(name)).length : 0;
});

/** Nothing is wider than the window, so no one has to scroll sideways. */
export async function fits(tab) {
  const wide = () => tab.evaluate(() => {
    const room = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= room) return [];
    return [...document.querySelectorAll('body *')]
      .filter((element) => element.getBoundingClientRect().right > room)
      .map((element) => element.outerHTML.slice(0, 120));
  });
  await eventually(async () => assert.deepEqual(await wide(), [], 'wider than the window'));
}

/** Saves a picture to look at when SCREENSHOTS names a folder. */
export async function picture(tab, name) {
  if (process.env.SCREENSHOTS) await tab.screenshot({ path: `${process.env.SCREENSHOTS}/${name}.png` });
}

/** Calls the API as the user, for what a test prepares. */
export async function call(method, path, body, token = TOKEN) {
  const answer = await fetch(BASE + path, {
    method,
    headers: { Authorization: `Bearer ${token}`, Accept: 'application/json', ...(body && { 'Content-Type': 'application/json' }) },
    body: body && JSON.stringify(body),
  });
  const text = await answer.text();
  assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
  return text ? JSON.parse(text) : undefined;
}

/** Runs the test's parts in their order, and ends the process. The first part that fails ends it with its error. */
export async function run(parts) {
  try {
    for (const [name, part] of Object.entries(parts)) {
      console.log(name);
      await part();
      assert.deepEqual(complaints, [], name);
    }
  } finally {
    await browser.close();
  }
}
