/** A chat's topics: how they fade, their archive, and the changes of a person. */
import { assert, call, desktop, eventually, fits, isAccessible, newBrowser, open, phone, picture, run } from './harness.mjs';

const { CHAT, EXPIRED } = process.env;
const path = `/app/chats/${CHAT}/topics`;
const topics = async () => (await call('GET', `/v1/chats/${CHAT}/topics`)).topics;
const context = await newBrowser();
let tab;

const item = (title) => tab.locator('.items > li').filter({ has: tab.getByRole('heading', { name: title, exact: true }) });
async function press(title, name) {
  const button = item(title).getByRole('button', { name, exact: true });
  if (!await button.isVisible()) await item(title).getByRole('button', { name: 'Actions' }).click();
  await button.click();
}
const curve = (title) => item(title).getByRole('img').getAttribute('aria-label');
const unfold = () => tab.locator('.faded > summary').click();

await run({
  async 'lists active topics first, each with its curve, and folds faded ones; merged ones are in neither'() {
    tab = await open(context, path);
    await item('Bows').waitFor();
    await eventually(async () => assert.deepEqual(await tab.locator('.items h3').allTextContents(), ['Rosin', 'Bows', 'Tax return']));
    await eventually(async () => assert.equal(await item('Tax return').isVisible(), false));
    await fits(tab);
    await isAccessible(tab, 'active topics');
    await unfold();
    await item('Tax return').getByText('Archived', { exact: true }).waitFor();
    // Bows rested for two days with a half-life of two; Rosin was talked about now, with one of a day.
    await eventually(async () => assert.match(await curve('Bows'), /^Priority 0.50 now, 0.35 in a day, 0.04 in a week: half after 2 days, below 0.05 from /));
    await eventually(async () => assert.match(await curve('Rosin'), /^Priority 1.00 now, 0.50 in a day, 0.01 in a week: half after 24 hours, /));
    for (const topic of await topics()) {
      if (topic.state !== 'active') continue;
      await eventually(async () => assert.ok((await curve(topic.title)).includes(`${topic.priority.toFixed(2)} now`), 'the page and the server disagree'));
    }
    await fits(tab);
    await isAccessible(tab, 'topics');
  },

  async 'reads back archived and packed messages'() {
    await item('Tax return').locator('summary').click();
    await item('Tax return').getByText('Question 7', { exact: true }).waitFor();
    await item('Bows').locator('summary').click();
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
    await eventually(async () => assert.match(await curve('Bows & hair'), /^Priority 0.30 now/));
  },

  async 'a failure is said in place, and the typed text stays'() {
    await press('Rosin', 'Change');
    await item('Rosin').getByLabel('Tags').fill('x'.repeat(65));
    await item('Rosin').getByRole('button', { name: 'Save' }).click();
    await item('Rosin').getByRole('alert').waitFor();
    await eventually(async () => assert.equal(await item('Rosin').getByLabel('Tags').inputValue(), 'x'.repeat(65)));
    await press('Rosin', 'Cancel');
  },

  async 'finds by words, in faded topics as well'() {
    await tab.getByRole('searchbox').fill('shopping');
    await tab.keyboard.press('Enter');
    await item('Rosin').waitFor({ state: 'detached' });
    await tab.getByRole('searchbox').fill('');
    await item('Rosin').waitFor();
    await tab.reload();
    await tab.getByRole('searchbox').fill('tax');
    await item('Rosin').waitFor({ state: 'detached' });
    await item('Tax return').waitFor();
    await tab.getByRole('searchbox').fill('');
    await item('Rosin').waitFor();
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
    await unfold();
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
