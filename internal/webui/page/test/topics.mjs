/** A chat's topics: how they fade, their archive, and the changes of a person. */
import { assert, call, desktop, eventually, fits, isAccessible, newBrowser, open, phone, picture, run } from './harness.mjs';

const { CHAT, EXPIRED } = process.env;
const path = `/app/chats/${CHAT}/topics`;
const topics = async () => (await call('GET', `/v1/chats/${CHAT}/topics`)).topics;
const context = await newBrowser();
let tab;

const item = (title) => tab.locator('.items > li').filter({ has: tab.getByRole('heading', { name: title, exact: true }) });
const press = (title, name) => item(title).getByRole('button', { name, exact: true }).click();
const cells = (title) => tab.getByRole('row', { name: title }).getByRole('cell').allTextContents();
/** The chart as one text, to see that it was drawn again. */
const drawn = () => tab.locator('.chart canvas').evaluate((canvas) => canvas.toDataURL());

await run({
  async 'lists topics, archived ones too and merged ones not, with their curves as a chart and as a table'() {
    tab = await open(context, path);
    await item('Bows').waitFor();
    await eventually(async () => assert.deepEqual(await tab.locator('.items h2').allTextContents(), ['Rosin', 'Bows', 'Tax return']));
    await item('Tax return').getByText('Archived', { exact: true }).waitFor();
    // Bows rested for two days with a half-life of two; Rosin was talked about now, with one of a day.
    await eventually(async () => assert.deepEqual((await cells('Bows')).slice(0, 4), ['2 days', '0.50', '0.35', '0.04']));
    await eventually(async () => assert.deepEqual((await cells('Rosin')).slice(0, 4), ['24 hours', '1.00', '0.50', '0.01']));
    for (const topic of await topics()) {
      if (topic.state !== 'active') continue;
      await eventually(async () => assert.equal((await cells(topic.title))[1], topic.priority.toFixed(2), 'the page and the server disagree'));
    }
    await eventually(async () => assert.equal(await tab.locator('.curves').getByText('Tax return').count(), 0, 'an archived topic has no curve'));
    await fits(tab);
    await isAccessible(tab, 'topics');
  },

  async 'the chart has the colours of the theme'() {
    const light = await drawn();
    await tab.emulateMedia({ colorScheme: 'dark' });
    await tab.waitForFunction((before) => document.querySelector('.chart canvas').toDataURL() !== before, light);
    await tab.emulateMedia({ colorScheme: 'light' });
  },

  async 'reads back archived and packed messages'() {
    await item('Tax return').getByText('Read it back').click();
    await item('Tax return').getByText('Question 7', { exact: true }).waitFor();
    await item('Bows').getByText('Messages', { exact: true }).click();
    await item('Bows').getByText('4 of 8 are packed away').waitFor();
    await eventually(async () => assert.equal(await item('Bows').locator('.said li.packed').count(), 4));
    await eventually(async () => assert.equal(await item('Bows').locator('.said li').count(), 8));
    await isAccessible(tab, 'messages of topics');
  },

  async 'renames, tags and weighs'() {
    await press('Bows', 'Change');
    const title = item('Bows').getByLabel('Title');
    await title.and(tab.locator(':focus')).waitFor();
    await title.fill('Bows & hair');
    await item('Bows').getByLabel('Tags').fill('cello, shopping');
    await item('Bows').getByLabel(/Importance/).fill('0.6');
    await isAccessible(tab, 'a topic that is changed');
    await item('Bows').getByRole('button', { name: 'Save' }).click();
    await item('Bows & hair').getByText('shopping').waitFor();
    await eventually(async () => {
      const changed = (await topics()).find(({ title }) => title === 'Bows & hair');
      assert.deepEqual([changed?.tags, changed?.importance], [['cello', 'shopping'], 0.6]);
    });
    await tab.getByRole('row', { name: 'hair' }).getByText('0.30').waitFor();
  },

  async 'a failure is said in place, and the typed text stays'() {
    await press('Rosin', 'Change');
    await item('Rosin').getByLabel('Tags').fill('x'.repeat(65));
    await item('Rosin').getByRole('button', { name: 'Save' }).click();
    await item('Rosin').getByRole('alert').waitFor();
    await eventually(async () => assert.equal(await item('Rosin').getByLabel('Tags').inputValue(), 'x'.repeat(65)));
    await press('Rosin', 'Cancel');
  },

  async 'finds by words and by state'() {
    await tab.getByRole('searchbox').fill('shopping');
    await tab.keyboard.press('Enter');
    await item('Rosin').waitFor({ state: 'detached' });
    await tab.getByRole('searchbox').fill('');
    await item('Rosin').waitFor();
    await tab.getByRole('search').getByLabel('State').selectOption('archived');
    await item('Rosin').waitFor({ state: 'detached' });
    await item('Tax return').waitFor();
    await tab.getByRole('search').getByLabel('State').selectOption('');
  },

  async 'looks'() {
    for (const options of [{ viewport: phone, colorScheme: 'dark' }, { viewport: desktop, colorScheme: 'light' }]) {
      const other = await newBrowser(options);
      tab = await open(other, path);
      await item('Rosin').waitFor();
      await fits(tab);
      await isAccessible(tab, `topics, ${options.colorScheme}`);
      await picture(tab, `topics-${options.viewport.width}-${options.colorScheme}`);
      await tab.setViewportSize({ width: 320, height: 600 });
      await fits(tab);
      await other.close();
    }
    tab = await open(context, path);
  },

  async 'hostile words are words'() {
    const { id } = (await topics()).find(({ state }) => state === 'archived');
    await call('PATCH', `/v1/chats/${CHAT}/topics/${id}`, { title: '<img src=x onerror=alert(1)>', tags: ['<script>alert(2)</script>', '\u202Efdp.exe'] });
    await tab.reload();
    await item('<img src=x onerror=alert(1)>').getByText('<script>alert(2)</script>').waitFor();
    await eventually(async () => assert.equal(await tab.locator('.items img, .items script').count(), 0));
    await fits(tab);
  },

  async 'merges, after a question'() {
    await press('Rosin', 'Merge');
    await item('Rosin').getByLabel('Give its messages to').selectOption({ label: 'Bows & hair' });
    await press('Rosin', 'Merge them');
    const dialog = tab.getByRole('dialog', { name: 'Merge for good?' });
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await press('Rosin', 'Merge them');
    await dialog.getByRole('button', { name: 'Merge', exact: true }).click();
    await item('Rosin').waitFor({ state: 'detached' });
    await item('Bows & hair').getByText('12 messages').waitFor();
  },

  async 'a chat without topics says why, and can be divided'() {
    const { id } = await call('POST', '/v1/chats', { title: 'Short' });
    await tab.goto(tab.url().replace(CHAT, id));
    await tab.getByText('This chat has no topics yet.').waitFor();
    await isAccessible(tab, 'no topics');
    await tab.getByRole('button', { name: 'Divide it into topics now' }).click();
    await tab.getByText('There is no topic yet.').waitFor();
    await eventually(async () => assert.equal((await call('GET', `/v1/chats/${id}`)).topics, 'on'));
  },

  async 'an expired chat and one of somebody else say so'() {
    await tab.goto(tab.url().replace(/chats\/[^/]+/, `chats/${EXPIRED}`));
    await tab.getByRole('alert').filter({ hasText: /expired/ }).waitFor();
    await tab.goto(tab.url().replace(EXPIRED, '00000000-0000-4000-8000-000000000000'));
    await tab.getByRole('alert').waitFor();
    await isAccessible(tab, 'a chat that is not there');
  },

  async 'where the server remembers nothing, writing is refused in place'() {
    await tab.goto(new URL('/app/memories', tab.url()).href);
    await tab.getByLabel('Remember this about me').fill('Has two cats.');
    await tab.getByRole('button', { name: 'Remember', exact: true }).click();
    await tab.getByRole('alert').waitFor();
    await eventually(async () => assert.equal(await tab.getByLabel('Remember this about me').inputValue(), 'Has two cats.'));
  },
});
