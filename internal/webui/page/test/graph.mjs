/** The graph as a person looks at it: drawn and as a list, asked, zoomed, large. */
import { assert, call, desktop, eventually, fits, isAccessible, newBrowser, open, phone, picture, run } from './harness.mjs';

const { LARGE_TOKEN } = process.env;
const context = await newBrowser({ reducedMotion: 'reduce' });
let tab;

const entity = (name) => tab.locator('.entities').getByRole('button', { name: new RegExp(`^${name} `) });
const about = () => tab.locator('.about');
const search = () => tab.getByRole('search', { name: 'Graph' });
const frame = () => tab.locator('svg > g').getAttribute('transform');
const dots = (where = tab) => where.locator('.dot').evaluateAll((all) => all.map((dot) => dot.getAttribute('transform')));
/** Names that are drawn over one another, by more than a pixel. */
const covered = () => tab.locator('.name.named').evaluateAll((texts) => {
  const boxes = texts.map((text) => [text.textContent, text.getBoundingClientRect()]);
  return boxes.flatMap(([name, a], i) => boxes.slice(0, i)
    .filter(([, b]) => a.left + 1 < b.right && b.left + 1 < a.right && a.top + 1 < b.bottom && b.top + 1 < a.bottom)
    .map(([other]) => `${name} and ${other}`));
});

await run({
  async 'before anything is known'() {
    tab = await open(context, '/app/memories/graph');
    await tab.getByText('The graph is empty.').waitFor();
    await isAccessible(tab, 'an empty graph');
  },

  async 'draws the facts told, and lists the same'() {
    const said = await call('POST', '/v1/message/first', {
      content: 'I live in Lyon. I play the cello. I use Neovim. My sister lives in Bergen. My cat is called Momo.',
    });
    await call('POST', `/v1/chats/${said.chat_id}/extract`);
    await call('POST', '/v1/message', { chat_id: said.chat_id, content: 'I have moved to Porto.' });
    await call('POST', `/v1/chats/${said.chat_id}/extract`);
    await tab.reload();
    await entity('Porto').waitFor();
    await tab.locator('.dot').first().waitFor({ state: 'attached' }); // drawn after the list
    await eventually(async () => assert.equal(await tab.locator('.dot').count(), await tab.locator('.entities > ul > li').count()));
    await eventually(async () => assert.ok((await tab.locator('.edge.past').count()) >= 1, 'a past fact is dashed'));
    await isAccessible(tab, 'a graph');
  },

  async 'without motion it is settled at once'() {
    const before = await dots();
    await tab.evaluate(() => new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(next))));
    await eventually(async () => assert.deepEqual(await dots(), before));
  },

  async 'an entity leads to its relationships and its memories, by keyboard'() {
    await entity('Porto').focus();
    await tab.keyboard.press('Enter');
    await eventually(async () => assert.equal(await entity('Porto').getAttribute('aria-expanded'), 'true'));
    await about().getByRole('link', { name: 'You live in Porto', exact: true }).waitFor();
    await isAccessible(tab, 'an entity');
    await about().getByRole('link', { name: 'You live in Porto.', exact: true }).click();
    await tab.locator('.items .words', { hasText: 'You live in Porto.' }).waitFor();
    assert.match(tab.url(), /\/app\/memories\?id=/);
    await tab.goBack();
    await entity('Lyon').click();
    await about().getByText(/until|no longer/).waitFor();
  },

  async 'so does its dot, and the drawing names its neighbours'() {
    await tab.locator('.dot', { hasText: 'Neovim' }).locator('circle').click();
    await about().getByRole('link', { name: 'You use Neovim', exact: true }).waitFor();
    await tab.locator('.dot.chosen').waitFor({ state: 'attached' });
    await eventually(async () => assert.equal(await tab.locator('.said.near').textContent(), 'uses'));
  },

  async 'zooms, fits and is dragged'() {
    const fitted = await frame();
    await tab.getByRole('button', { name: 'Zoom in' }).click();
    await eventually(async () => assert.notEqual(await frame(), fitted));
    await tab.getByRole('button', { name: 'Fit' }).click();
    await eventually(async () => assert.equal(await frame(), fitted));
    await tab.locator('svg').first().scrollIntoViewIfNeeded();
    const dot = tab.locator('.dot', { hasText: 'Neovim' });
    const before = await dot.getAttribute('transform');
    const { x, y, width, height } = await dot.locator('circle').boundingBox();
    await tab.mouse.move(x + width / 2, y + height / 2);
    await tab.mouse.down();
    await tab.mouse.move(x + 40, y + 30, { steps: 5 });
    await tab.mouse.up();
    await eventually(async () => assert.notEqual(await dot.getAttribute('transform'), before));
  },

  async 'answers a question, a kind and a day'() {
    await search().getByRole('searchbox').fill('what tools do I use');
    await tab.keyboard.press('Enter');
    await entity('Porto').waitFor({ state: 'detached' });
    await entity('Neovim').waitFor();
    await search().getByRole('searchbox').fill('');
    await entity('Porto').waitFor();
    await search().getByRole('button', { name: 'Filters' }).click();
    await search().getByLabel('Kind').selectOption('place');
    await entity('Neovim').waitFor({ state: 'detached' });
    await search().getByLabel('Kind').selectOption('');
    await search().getByLabel('True on').fill('2020-01-01');
    await entity('Porto').waitFor({ state: 'detached' });
    await search().getByLabel('True on').fill('');
    await entity('Porto').waitFor();
  },

  async 'a failure is said, and nothing else changes'() {
    await tab.route('**/v1/graph*', (route) => route.fulfill({ status: 503, json: { code: 'not_ready', message: 'Postgres does not answer.' } }));
    await search().getByLabel('Kind').selectOption('place');
    await tab.getByRole('alert').filter({ hasText: 'Postgres does not answer.' }).waitFor();
    await tab.unroute('**/v1/graph*');
    await tab.getByRole('button', { name: 'Try again' }).click();
    await tab.getByRole('alert').waitFor({ state: 'detached' });
    await entity('Porto').waitFor();
  },

  async 'a large graph is cut, and says so'() {
    const other = await newBrowser({ viewport: desktop, reducedMotion: 'reduce' });
    tab = await open(other, '/app/memories/graph', LARGE_TOKEN);
    await tab.getByText('Drawn are the 500 that are mentioned most; 200 more are in the list.').waitFor();
    await tab.locator('.dot').first().waitFor({ state: 'attached' });
    await eventually(async () => assert.equal(await tab.locator('.dot').count(), 500));
    await eventually(async () => assert.equal(await tab.locator('.entities > ul > li').count(), 700));
    await eventually(async () => assert.equal(await tab.locator('.entities img').count(), 0));
    await tab.locator('.entity', { hasText: '<img src=x onerror=alert(1)>' }).waitFor();
    const named = () => tab.locator('.name.named').count();
    const fitted = await named();
    for (const name of ['Zoom in', 'Zoom in', 'Fit']) {
      await eventually(async () => assert.deepEqual(await covered(), [], 'names cover each other'));
      await tab.getByRole('button', { name }).click();
    }
    await eventually(async () => assert.equal(await named(), fitted));
    await fits(tab);
    await isAccessible(tab, 'a large graph');
    await picture(tab, 'graph-large');
    await other.close();
  },

  async 'looks'() {
    for (const options of [{ viewport: phone, colorScheme: 'light' }, { viewport: desktop, colorScheme: 'dark' }]) {
      const other = await newBrowser({ ...options, reducedMotion: 'reduce' });
      tab = await open(other, '/app/memories/graph');
      await entity('Porto').click();
      await about().getByRole('link', { name: 'You live in Porto.', exact: true }).waitFor();
      await fits(tab);
      await isAccessible(tab, `a graph, ${options.colorScheme}`);
      await tab.evaluate(() => scrollTo(0, 0));
      await picture(tab, `graph-${options.viewport.width}-${options.colorScheme}`);
      await tab.setViewportSize({ width: 320, height: 600 });
      await fits(tab);
      await other.close();
    }
  },
});
