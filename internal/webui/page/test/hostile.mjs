/** Texts that are made to stop the page, beside prose of the same size: they are read, and the page stays usable. */
import { assert, call, desktop, eventually, fits, isAccessible, newBrowser, open, picture, run } from './harness.mjs';

const { prose, ...hostile } = JSON.parse(process.env.CHATS);

/** How much longer than with prose a hostile text may keep the page busy. */
const TIMES = 6;
/** The least that prose counts for, in ms: less is the noise of a busy machine. */
const LEAST = 300;

const context = await newBrowser();
const watched = new WeakMap(); // the sessions in which a tab tells the processor's time it took: other processes do not count
context.on('page', (tab) => watched.set(tab, watch(tab)));
async function watch(tab) {
  const session = await context.newCDPSession(tab);
  await session.send('Performance.enable', { timeDomain: 'threadTicks' });
  return session;
}
const composer = (tab) => tab.getByRole('textbox', { name: 'Message', exact: true });
async function busy(tab) {
  await tab.evaluate(() => new Promise((wake) => setTimeout(wake, 100)));
  const { metrics } = await (await watched.get(tab)).send('Performance.getMetrics');
  return Math.round(1000 * metrics.find(({ name }) => name === 'TaskDuration').value);
}
let measure; // how long prose keeps the page busy
let tab;

/** Opens a chat, reads all of it, and says how long the page was busy. */
async function reads(name, { id, lengths }) {
  tab = await open(context, `/app/chats/${id}`);
  const replies = tab.locator('.message.assistant .words');
  await eventually(async () => assert.equal(await replies.count(), lengths.length + 1, name));
  const texts = await replies.evaluateAll((all) => all.map((one) => [one.textContent.length, one.textContent.trim().endsWith('THE END')]));
  for (const [n, length] of lengths.entries()) {
    const [shown, ends] = texts[n];
    assert.ok(ends && shown > 0, `${name}: the end of the text of ${length} is not shown`);
    const plain = replies.nth(n).locator('.plain');
    if (await plain.count()) assert.equal(await plain.evaluate((one) => one.textContent.length), length, `${name}: ${length} characters`);
  }
  assert.equal(await replies.last().locator('strong').innerText(), 'reply', `${name}: the message after it`);
  await composer(tab).fill('still here');
  assert.equal(await composer(tab).inputValue(), 'still here');
  await composer(tab).fill('');
  await fits(tab);
  return busy(tab);
}

/** Asks for a reply that grows, and says how long the page was busy with it. */
async function grows(name) {
  tab = await open(context, '/app/chats/new');
  await composer(tab).fill(`grow ${name}`);
  await tab.getByRole('button', { name: 'Send' }).click();
  await tab.waitForURL(/\/app\/chats\/[0-9a-f-]{36}$/);
  await tab.getByRole('button', { name: 'Send' }).waitFor();
  await tab.locator('.message.assistant .words').filter({ hasText: 'THE END' }).waitFor();
  return busy(tab);
}

await run({
  async 'prose is the measure'() {
    await reads('prose', prose);
    await tab.close();
    measure = Math.max(LEAST, await reads('prose', prose));
    assert.equal(await tab.locator('.words > .note').count(), 1, 'the longest alone is shown as plain text');
    await tab.close();
  },

  ...Object.fromEntries(Object.entries(hostile).map(([name, chat]) => [`${name} are read as well`, async () => {
    const took = await reads(name, chat);
    console.log(`  ${took} ms, prose ${measure} ms`);
    assert.ok(took < TIMES * measure, `the page is busy with ${name} for ${took} ms, with prose for ${measure} ms`);
    await tab.close();
  }])),

  async 'plain text says why it is plain, in both themes'() {
    const { id } = hostile['quotes with spaces'];
    for (const colorScheme of ['light', 'dark']) {
      const other = await newBrowser({ colorScheme, ...(colorScheme === 'dark' && { viewport: desktop }) });
      tab = await open(other, `/app/chats/${id}`);
      const note = tab.getByText('Shown as plain text').first();
      await note.evaluate((one) => one.scrollIntoView({ block: 'center' }));
      await picture(tab, `talk-plain-${colorScheme}`);
      await isAccessible(tab, 'plain text');
      await other.close();
    }
  },

  async 'a reply that grows is not formatted from its beginning again and again'() {
    const control = Math.max(LEAST, await grows('prose'));
    for (const name of ['quotes', 'emphasis']) {
      const took = await grows(name);
      assert.ok(took < TIMES * control, `the page is busy with ${name} for ${took} ms, with prose for ${control} ms`);
    }
    await tab.close();
  },

  async 'two versions of a brief that have no word in common are shown as two texts'() {
    const compared = async (id) => {
      tab = await open(context, `/app/chats/${id}/memory`);
      await tab.getByText('Version 2 of 2').waitFor();
      await tab.locator('.brief ins').first().waitFor();
      assert.ok((await tab.locator('.brief ins').allTextContents()).join('').includes('b4000'));
      return busy(tab);
    };
    await compared(process.env.LIKE);
    const control = Math.max(LEAST, await compared(process.env.LIKE));
    const took = await compared(process.env.UNLIKE);
    console.log(`  ${took} ms, ${control} ms`);
    assert.ok(took < TIMES * control, `the page is busy for ${took} ms, with versions that are alike for ${control} ms`);
  },

  async 'a server that cannot be reached is asked less and less often, also where it seems to be back for a moment'() {
    for (const cut of ['**/{v1/**,healthz}', '**/v1/**']) {
      const other = await newBrowser();
      await other.clock.install();
      tab = await open(other, '/app/');
      await tab.getByRole('link', { name: 'New chat' }).waitFor();
      let asked = 0;
      other.on('request', (request) => (asked += Number(request.url().endsWith('/healthz'))));
      await other.route(cut, (route) => route.abort());
      for (let second = 0; second < 120; second++) { // of the browser's clock
        await other.clock.runFor(1000);
        await tab.evaluate(() => fetch('/app/config.json')); // earlier requests are answered by then
      }
      console.log(`  ${asked} times`);
      assert.ok(asked > 5 && asked < 45, `${cut} cut: asked ${asked} times in two minutes`);
      await other.close();
    }
  },

  async 'older messages that cannot be read are not asked for each time that a reply grows'() {
    const { id } = await call('POST', '/v1/chats', { title: 'Long' });
    const messages = Array.from({ length: 80 }, (_, n) => ({ role: n % 2 ? 'assistant' : 'user', content: `Number ${n}.` }));
    await call('POST', `/v1/chats/${id}/messages`, { messages });
    tab = await open(context, `/app/chats/${id}`);
    await tab.getByText('Number 79.').waitFor();
    let asked = 0;
    await tab.route('**/messages?*before_seq*', (route) => (asked++, route.fulfill({ status: 500, body: '{}' })));
    await tab.evaluate(() => scrollTo(0, 0));
    await tab.getByRole('alert').waitFor();
    await tab.evaluate(() => addEventListener('scroll', () => scrollTo(0, 0))); // the earliest stays in view
    const before = asked;
    for (let n = 1; n <= 5; n++) {
      await composer(tab).fill('grow prose');
      await tab.getByRole('button', { name: 'Send' }).click();
      await eventually(async () => assert.equal(await tab.locator('.message.assistant').filter({ hasText: 'THE END' }).count(), n));
      await tab.getByRole('button', { name: 'Send' }).waitFor();
    }
    console.log(`  ${asked - before} times`);
    assert.ok(asked - before <= 5, `asked ${asked - before} times while five replies grew`);
  },
});
