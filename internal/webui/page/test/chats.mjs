/** Home, the list of chats, the search over everything, and what is shown where a chat cannot be. The model is the stage of talk_test.go. */
import { assert, BASE, call, desktop, eventually, fits, isAccessible, newBrowser, open, phone, picture, run } from './harness.mjs';

const release = async (name) => assert.equal((await fetch(`${process.env.STAGE}/release?name=${encodeURIComponent(name)}`, { method: 'POST' })).status, 200);
const palette = (tab) => tab.getByRole('combobox', { name: 'Search chats, messages and memories' });
const found = (tab, name) => tab.getByRole('option', { name });
const chosen = (tab) => tab.locator('[role=option][aria-selected=true]');

const context = await newBrowser({ viewport: desktop });
let tab;

await run({
  async 'home has a composer, three ways to begin, and the models'() {
    tab = await open(context, '/app/');
    await tab.getByText('You have no chats yet.').waitFor();
    await tab.getByRole('heading', { name: 'What is on your mind?', level: 1 }).waitFor();
    assert.equal(await tab.getByRole('list', { name: 'Ways to begin' }).getByRole('button').count(), 3);
    await isAccessible(tab, 'home');
    await fits(tab);
    await tab.getByLabel('Model').selectOption('arco-pro');
    await tab.getByRole('button', { name: /^Look back/ }).click();
    await tab.waitForURL(/\/app\/chats\/[0-9a-f-]{36}$/);
    await tab.locator('.message.assistant .words').waitFor();
    const id = tab.url().split('/').at(-1);
    await eventually(async () => assert.equal((await call('GET', `/v1/chats/${id}/messages`)).messages.at(-1).metadata.model_variant, 'arco-pro'));
    await eventually(async () => assert.equal(await tab.getByLabel('Model').inputValue(), 'arco-pro')); // the chat goes on with it
  },

  async 'a new chat is in the list of every tab while its first reply is written'() {
    const second = await open(context, '/app/');
    await second.getByRole('link', { name: /What do you remember/ }).waitFor();
    await tab.getByRole('link', { name: 'New chat' }).click();
    await tab.waitForFunction(() => document.activeElement.id === 'write');
    let send;
    const sent = new Promise((resolve) => (send = resolve));
    await tab.route('**/v1/message/first', async (route) => (await sent, route.continue()));
    await tab.keyboard.type('hold the rosin');
    await tab.keyboard.press('Enter');
    const asked = tab.locator('.message.user');
    await asked.evaluate((message) => (message.first = true));
    send();
    await tab.keyboard.type('And then?');
    for (const one of [tab, second]) await one.getByRole('region', { name: 'Today' }).getByRole('link', { name: /hold the rosin/ }).waitFor();
    await tab.waitForURL(/\/app\/chats\/[0-9a-f-]{36}$/);
    assert.ok(await asked.evaluate((message) => message.first), 'the chat that has begun is drawn anew');
    assert.equal(await tab.getByRole('button', { name: 'Stop the reply' }).count(), 1);
    const composer = tab.getByRole('textbox', { name: 'Message', exact: true });
    assert.equal(await composer.inputValue(), 'And then?');
    await tab.unrouteAll({ behavior: 'ignoreErrors' });
    await tab.reload();
    assert.equal(await composer.inputValue(), 'And then?');
    await composer.fill('');
    await release('hold the rosin');
    await tab.getByRole('button', { name: 'Send' }).waitFor();
    await tab.getByRole('link', { name: 'New chat' }).click();
    await tab.getByRole('heading', { name: 'What is on your mind?' }).waitFor();
    assert.equal(await tab.locator('.message').count(), 0);
    assert.equal(await composer.inputValue(), '');
    await tab.goBack();
    await tab.locator('.message.assistant').waitFor();
    await second.close();
  },

  async 'the list goes by age'() {
    const days = (n) => new Date(Date.now() - n * 86_400_000).toISOString();
    const made = [[0, 'Now'], [1, 'A day ago'], [3, 'Three days ago'], [40, 'Weeks ago'], [400, 'Last year']].map(([n, title]) => (
      { id: crypto.randomUUID(), title, tags: [], remember: true, created_at: days(n), last_message_at: null }));
    await tab.route('**/v1/chats?**', (route) => route.fulfill({ json: { chats: made, next_cursor: null } }));
    await tab.goto(`${BASE}/app/`);
    await tab.getByRole('link', { name: /Last year/ }).waitFor();
    const month = (n, year) => new Intl.DateTimeFormat('en', { month: 'long', ...(year && { year: 'numeric' }) }).format(new Date(days(n)));
    const sameYear = new Date(days(40)).getFullYear() === new Date().getFullYear();
    assert.deepEqual(await tab.locator('.age').allInnerTexts(), ['Today', 'Yesterday', 'Previous 7 days', month(40, !sameYear), month(400, true)]);
    await isAccessible(tab, 'the list by age');
    await tab.unrouteAll();
  },

  async 'the keyboard finds chats, messages and memories, and goes to them'() {
    const memory = await call('POST', '/v1/memories', { content: 'Polishes with rosin.' });
    await tab.goto(`${BASE}/app/memories`);
    await tab.getByRole('heading', { level: 1 }).waitFor();
    await tab.keyboard.press('Control+k');
    await found(tab, /New chat/).waitFor();
    await palette(tab).fill('rosin');
    await found(tab, /Polishes with rosin/).waitFor();
    const kinds = () => tab.getByRole('listbox').getByRole('group').evaluateAll((all) => all.map((one) => one.ariaLabel));
    assert.deepEqual(await kinds(), ['Chats', 'Memories', 'Messages']);
    await isAccessible(tab, 'the search');
    await picture(tab, 'palette');
    await tab.keyboard.press('ArrowDown');
    await chosen(tab).filter({ hasText: 'Polishes' }).waitFor();
    await tab.keyboard.press('Enter');
    await tab.waitForURL(`${BASE}/app/memories?id=${memory.id}`);
    await tab.keyboard.press('Meta+k');
    await palette(tab).fill('rosin');
    await found(tab, /Polishes with rosin/).waitFor();
    await tab.keyboard.press('ArrowUp'); // from the first to the last
    await chosen(tab).locator('mark', { hasText: 'rosin' }).waitFor();
    await tab.keyboard.press('Enter');
    await tab.waitForURL(/\/app\/chats\/[0-9a-f-]{36}\?message=/);
    await tab.waitForFunction(() => document.activeElement?.matches('article') && document.activeElement.textContent.includes('rosin'));
    await tab.keyboard.press('Control+k');
    await palette(tab).fill('xyzzyq');
    await tab.getByText('Nothing was found.').waitFor();
    const { id } = await call('POST', '/v1/chats', { title: 'Settings' });
    await call('POST', `/v1/chats/${id}/messages`, { messages: [{ role: 'user', content: 'Set **DATABASE_URL** to 2*3 `plums`' }] });
    await call('POST', '/v1/memories', { content: 'The user eats plums.' });
    await palette(tab).fill('plums');
    await found(tab, /Set DATABASE_URL to 2\*3 plums/).waitFor();
    await found(tab, /You eat plums\./).waitFor();
    await call('DELETE', `/v1/chats/${id}`);
    await isAccessible(tab, 'a search that finds nothing');
    await tab.keyboard.press('Escape');
    await palette(tab).waitFor({ state: 'detached' });
  },

  async 'where a part of the search fails, the rest is found'() {
    await tab.route('**/v1/memories?**', (route) => route.fulfill({ status: 500, json: { error: { code: 'internal', message: 'Something went wrong.' } } }));
    await tab.getByRole('button', { name: /^Search/ }).click();
    await palette(tab).fill('rosin');
    await found(tab, /hold the rosin/).first().waitFor();
    await tab.getByRole('dialog').getByRole('alert').waitFor();
    await tab.getByRole('button', { name: 'Close the search' }).click();
    await tab.unrouteAll();
  },

  async 'a chat that is not there has a page with a way back'() {
    for (const id of [crypto.randomUUID(), 'not-an-id']) {
      await tab.goto(`${BASE}/app/chats/${id}`);
      await tab.getByRole('heading', { name: 'This chat is not here', level: 1 }).waitFor();
      assert.equal(await tab.getByRole('textbox', { name: 'Message' }).count(), 0);
      await isAccessible(tab, 'no chat');
    }
    await tab.getByRole('link', { name: 'Your chats' }).click();
    await tab.getByRole('heading', { name: 'What is on your mind?' }).waitFor();
  },

  async 'what cannot be read says so, and is tried again'() {
    await tab.getByRole('link', { name: /hold the rosin/ }).click();
    await tab.locator('.message.assistant').waitFor();
    await tab.route('**/v1/chats{?**,/**}', (route) => route.fulfill({ status: 503, json: { error: { code: 'not_ready', message: 'Not yet.' } } }));
    let answer;
    const asked = new Promise((resolve) => (answer = resolve));
    await tab.route('**/v1/chats/**', async (route) => (await asked, route.fallback()));
    await tab.reload();
    const composer = tab.getByRole('textbox', { name: 'Message', exact: true });
    await composer.focus();
    await tab.keyboard.type('Written while');
    answer();
    await eventually(async () => assert.equal(await tab.getByRole('button', { name: 'Try again' }).count(), 2));
    await tab.keyboard.type(' it was read');
    assert.equal(await composer.inputValue(), 'Written while it was read');
    await isAccessible(tab, 'nothing can be read');
    await picture(tab, 'nothing-can-be-read');
    await tab.unrouteAll();
    await tab.locator('.conversation').getByRole('button', { name: 'Try again' }).click();
    await tab.locator('.message.assistant').waitFor();
    assert.equal(await composer.inputValue(), 'Written while it was read');
    await composer.fill('');
  },

  async 'while it is read, something stands in its place'() {
    await tab.route('**/v1/chats{?**,/**}', () => {});
    await tab.reload();
    await eventually(async () => assert.equal(await tab.locator('.skeleton').count(), 2));
    await isAccessible(tab, 'reading');
    await tab.unrouteAll({ behavior: 'ignoreErrors' });
  },

  async 'on a phone home stands above the list'() {
    const small = await newBrowser({ viewport: phone, colorScheme: 'dark' });
    const one = await open(small, '/app/');
    await one.getByRole('link', { name: /hold the rosin/ }).waitFor();
    assert.equal(await one.evaluate(() => scrollY), 0);
    await isAccessible(one, 'home on a phone');
    await fits(one);
    await one.getByRole('button', { name: /^Search/ }).click();
    await palette(one).fill('rosin');
    await found(one, /hold the rosin/).first().click();
    await one.getByRole('heading', { name: /hold the rosin/, level: 1 }).waitFor();
    await small.close();
  },
});
