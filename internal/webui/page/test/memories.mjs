/** Memories as a person handles them: see, write, correct, pin, accept, put away, forget, take along. */
import { readFile } from 'node:fs/promises';
import { assert, call, desktop, eventually, fits, isAccessible, newBrowser, open, phone, picture, run, TOKEN } from './harness.mjs';

const context = await newBrowser({ acceptDownloads: true });
let tab;

const item = (words) => tab.locator('.items > li').filter({ has: tab.locator('.words', { hasText: words }) });
const button = (words, name) => item(words).getByRole('button', { name, exact: true });
/** Presses one of the actions in a memory's menu, or of the buttons beside it. */
async function press(words, name) {
  if (!await button(words, name).isVisible()) await button(words, 'Actions').click();
  await button(words, name).click();
}
const says = (news) => tab.getByRole('status').filter({ hasText: news }).waitFor();
/** The filters are folded behind a button, which counts the active ones. */
const filters = (active) => tab.getByRole('search').getByRole('button', { name: active ? `Filters ${active} active` : /^Filters/ });
async function filterBy(name, value) {
  if (await filters().getAttribute('aria-expanded') === 'false') await filters().click();
  await tab.getByRole('search').getByLabel(name).selectOption({ label: value });
}
const gone = (words) => item(words).first().waitFor({ state: 'detached' });

/** The focus is where a person goes on. It moves a frame after the pressed button is gone. */
const focused = (text) => tab.waitForFunction((wanted) => {
  const { activeElement } = document;
  return activeElement.matches('button, li') && (activeElement.ariaLabel === wanted || (wanted.test?.(activeElement.textContent) ?? false));
}, text);

/** Says something in a chat, and has it read for memories at once. */
async function tell(content, chat) {
  const said = chat
    ? await call('POST', '/v1/message', { chat_id: chat, content })
    : await call('POST', '/v1/message/first', { content });
  await call('POST', `/v1/chats/${said.chat_id}/extract`);
  return said.chat_id;
}

await run({
  async 'before anything is remembered'() {
    tab = await open(context, '/app/memories');
    await tab.getByText('Nothing is remembered yet.').waitFor();
    await isAccessible(tab, 'no memories');
  },

  async 'memories are listed, with where they were said'() {
    const chat = await tell('I am allergic to walnuts.');
    await tell('I live in Lyon.', chat);
    await tell('I play the cello.', chat);
    await tab.reload();
    await item('You are allergic to walnuts').waitFor();
    await item('allergic to walnuts').locator('summary').click();
    await item('allergic to walnuts').locator('blockquote', { hasText: 'allergic to walnuts' }).waitFor();
    const source = item('allergic to walnuts').getByRole('link', { name: /message 1 of its chat/ });
    await eventually(async () => assert.match(await source.getAttribute('href'), new RegExp(`^/app/chats/${chat}\\?message=[0-9a-f-]{36}$`)));
    await isAccessible(tab, 'memories with an open source');
    await source.click();
    await tab.locator('.message', { hasText: 'I am allergic to walnuts.' }).first().waitFor();
    await tab.goBack();
    await item('allergic to walnuts').waitFor();

    await tell('I have moved to Porto.', chat);
    await filterBy('State', 'No longer true');
    await item('You live in Lyon.').getByRole('link', { name: 'What took its place' }).click();
    await item('You live in Porto.').waitFor();
    await tab.getByRole('link', { name: 'All memories' }).click();
    await item('You live in Porto.').waitFor();
    await gone('You live in Lyon.');
  },

  async 'a draft outlives a reload and a session that ended'() {
    const field = tab.getByLabel('Remember this about me');
    await field.fill('Prefers oat milk.');
    await tab.reload();
    await eventually(async () => assert.equal(await field.inputValue(), 'Prefers oat milk.'));
    const expired = { status: 401, json: { code: 'session_expired', message: 'The session has expired.' } };
    await tab.route('**/v1/memories', (route) => (route.request().method() === 'POST' ? route.fulfill(expired) : route.continue()));
    await tab.getByRole('button', { name: 'Remember', exact: true }).click();
    const over = tab.getByRole('dialog', { name: 'Your session has ended' });
    await over.waitFor();
    await tab.unroute('**/v1/memories');
    await over.getByLabel('Access token').fill(TOKEN);
    await over.getByRole('button', { name: 'Sign in' }).click();
    await over.waitFor({ state: 'detached' });
    await eventually(async () => assert.equal(await field.inputValue(), 'Prefers oat milk.'));
  },

  async 'remembers what a person writes, once'() {
    const field = tab.getByLabel('Remember this about me');
    await field.fill('Prefers oat milk.');
    await tab.getByLabel('Kind').first().selectOption({ label: 'Preference' });
    await tab.getByRole('button', { name: 'Remember', exact: true }).click();
    await says('It is remembered now.');
    await item('Prefers oat milk.').waitFor();
    await eventually(async () => assert.equal(await field.inputValue(), ''));
    await field.fill('prefers OAT milk');
    await tab.getByRole('button', { name: 'Remember', exact: true }).click();
    await says('It was remembered already.');
    await eventually(async () => assert.equal(await item('oat milk').count(), 1));
  },

  async 'the server cannot be reached: said in place, and nothing is lost'() {
    await tab.getByLabel('Remember this about me').fill('Has two cats.');
    await context.setOffline(true);
    await tab.getByRole('button', { name: 'Remember', exact: true }).click();
    await tab.getByRole('alert').filter({ hasText: 'cannot be reached' }).waitFor();
    await press('Prefers oat milk.', 'Pin');
    await item('Prefers oat milk.').getByRole('alert').waitFor();
    await eventually(async () => assert.equal(await item('Prefers oat milk.').getByText('Pinned').count(), 0, 'a pin that failed stays shown'));
    await context.setOffline(false);
    await tab.getByRole('button', { name: 'Remember', exact: true }).click();
    await item('Has two cats.').waitFor();
  },

  async 'a list that comes late takes nothing back'() {
    let answer;
    const answered = new Promise((resolve) => (answer = resolve));
    await tab.route('**/v1/memories?status=active', async (route) => {
      const response = await route.fetch();
      await answered;
      await route.fulfill({ response }).catch(() => {}); // the page may wait for it no more
    }, { times: 1 });
    await tab.getByLabel('Remember this about me').fill('Has a dog.');
    await tab.getByRole('button', { name: 'Remember', exact: true }).click();
    await says('It is remembered now.');
    const pinned = tab.waitForResponse((response) => response.request().method() === 'PATCH');
    await press('Has two cats.', 'Pin');
    await pinned;
    answer();
    await item('Has a dog.').waitFor();
    await item('Has two cats.').getByText('Pinned').waitFor();
    await press('Has two cats.', 'Unpin');
    await item('Has two cats.').getByText('Pinned').waitFor({ state: 'detached' });
  },

  async 'pins and corrects'() {
    await press('Prefers oat milk.', 'Pin');
    await item('Prefers oat milk.').getByText('Pinned').waitFor();
    await press('Prefers oat milk.', 'Correct');
    const words = tab.getByLabel('In your words');
    await words.and(tab.locator(':focus')).waitFor();
    await words.fill('Has two cats');
    await tab.getByRole('button', { name: 'Save', exact: true }).first().click();
    const link = tab.getByRole('alert').getByRole('link', { name: 'Show it' });
    await link.waitFor();
    await words.fill('Prefers oat milk in coffee.');
    await isAccessible(tab, 'a correction');
    await tab.getByRole('button', { name: 'Save', exact: true }).first().click();
    await item('oat milk in coffee').getByText('Corrected by you').first().waitFor();
    await focused('Actions');
    await item('oat milk in coffee').locator('summary').click();
    await item('oat milk in coffee').locator('li', { hasText: 'Corrected by you' }).first().waitFor();
    await eventually(async () => assert.equal((await call('GET', '/v1/memories?q=coffee')).memories[0].pinned, true));
  },

  async 'decides on the inbox'() {
    await call('POST', '/v1/memories', { content: 'Likes marzipan.', status: 'inbox' });
    await call('POST', '/v1/memories', { content: 'Dislikes rain.', status: 'inbox' });
    await tab.reload();
    const inbox = tab.getByRole('region', { name: /Inbox/ });
    const badge = (n) => tab.getByRole('link', { name: `Memories ${n} to decide` });
    await badge(2).waitFor();
    await inbox.getByText('Likes marzipan.').waitFor();
    await isAccessible(tab, 'an inbox');
    await press('Likes marzipan.', 'Accept');
    await inbox.getByText('Likes marzipan.').waitFor({ state: 'detached' });
    await item('Likes marzipan.').waitFor();
    await focused(/Dislikes rain/);
    await badge(1).waitFor();
    await press('Dislikes rain.', 'Reject');
    await tab.getByRole('dialog').getByRole('button', { name: 'Forget' }).click();
    await inbox.waitFor({ state: 'detached' });
    await badge(1).waitFor({ state: 'detached' });
    await eventually(async () => assert.equal((await call('GET', '/v1/memories?status=all&q=rain')).memories.length, 0));
  },

  async 'puts away and brings back'() {
    await press('Likes marzipan.', 'Put away');
    await says('Put away.');
    await gone('Likes marzipan.');
    await filterBy('State', 'Put away');
    await press('Likes marzipan.', 'Bring back');
    await tab.getByText('Nothing fits this filter.').waitFor();
    await filterBy('State', 'Remembered');
    await item('Likes marzipan.').waitFor();
  },

  async 'finds by words, kind and day, and keeps the filter in the address'() {
    await tab.getByRole('search').getByLabel('Search').fill('walnuts');
    await gone('marzipan');
    await tab.reload();
    await item('walnuts').waitFor();
    await eventually(async () => assert.equal(await tab.locator('.items > li').count(), 1));
    await tab.getByRole('search').getByLabel('Search').fill('');
    await item('marzipan').waitFor();
    await filterBy('Kind', 'Preferences');
    await filters(1).waitFor();
    await gone('marzipan');
    await item('oat milk').waitFor();
    await filterBy('Kind', 'All');
    await tab.getByLabel('True on').fill('2020-01-01');
    await tab.getByText('Nothing fits this filter.').waitFor();
    await isAccessible(tab, 'filters');
    await tab.getByRole('search').getByRole('button', { name: 'Clear' }).click();
    await item('walnuts').waitFor();
  },

  async 'long lists are read on'() {
    for (let n = 0; n < 52; n++) await call('POST', '/v1/memories', { content: `Owns the record number ${n}.`, type: 'context' });
    await tab.reload();
    await item('record number 51.').waitFor();
    await eventually(async () => assert.equal(await item('record number 0.').count(), 0));
    await tab.getByRole('button', { name: 'Show more' }).click();
    await item('record number 0.').waitFor();
    await item('walnuts').waitFor();
  },

  async 'forgets one memory, after a question'() {
    await press('walnuts', 'Forget');
    const dialog = tab.getByRole('dialog');
    await isAccessible(tab, 'a question');
    await tab.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    await focused('Actions');
    await tab.keyboard.press('Enter');
    await button('walnuts', 'Forget').press('Enter');
    await eventually(async () => assert.ok(await dialog.getByRole('checkbox', { name: /Take back the summaries/ }).isChecked()));
    const asked = tab.waitForRequest((request) => request.method() === 'DELETE');
    await dialog.getByRole('button', { name: 'Forget', exact: true }).click();
    await eventually(async () => assert.match((await asked).url(), /\?also=summaries$/));
    await gone('walnuts');
    await focused(/You play the cello/);
    await item('record number 0.').waitFor(); // further pages stay
  },

  async 'forgets by words, in two steps'() {
    await tab.getByText('Forget by words').click();
    await tab.getByLabel('Forget what you know about').fill('zebras');
    await tab.getByRole('button', { name: 'Show what that is' }).click();
    await tab.getByText('No memory is about that.').waitFor();
    await tab.getByLabel('Forget what you know about').fill('record');
    await tab.getByRole('button', { name: 'Show what that is' }).click();
    const dialog = tab.getByRole('dialog', { name: 'Forget 50 memories for good?' });
    await dialog.getByText('Owns the record number').first().waitFor();
    await isAccessible(tab, 'what would be forgotten');
    await dialog.getByRole('button', { name: 'Forget them' }).click();
    await says('50 memories forgotten.');
  },

  async 'switches remembering off, and names the subjects that are never remembered'() {
    const remembering = tab.getByRole('switch', { name: 'Remember me across chats' });
    await remembering.click();
    await tab.getByText('Nothing is read and nothing is shown.').waitFor();
    await tab.getByText('Subjects, time zone, language').click();
    await tab.getByLabel('Never remember anything about').fill('my divorce\n\n my knee ');
    await tab.getByLabel('Time zone').fill('Mars/Olympus');
    await tab.locator('.settings').getByRole('button', { name: 'Save' }).click();
    await tab.locator('.settings').getByRole('alert').waitFor();
    await eventually(async () => assert.match(await tab.getByLabel('Never remember anything about').inputValue(), /my divorce/));
    await tab.getByLabel('Time zone').fill('Europe/Berlin');
    await tab.locator('.settings').getByRole('button', { name: 'Save' }).click();
    await tab.locator('.settings').getByText('Saved.').waitFor();
    await isAccessible(tab, 'settings');
    await tab.reload();
    await remembering.waitFor();
    await eventually(async () => assert.equal(await remembering.isChecked(), false));
    await remembering.click();
    await tab.getByText('What you say of yourself is read').waitFor();
    await eventually(async () => {
      const { enabled, excluded, time_zone } = await call('GET', '/v1/memories/settings');
      assert.deepEqual({ enabled, excluded, time_zone }, { enabled: true, excluded: ['my divorce', 'my knee'], time_zone: 'Europe/Berlin' });
    });
  },

  async 'takes everything along, forgets it, and brings it back'() {
    const coming = tab.waitForEvent('download');
    await tab.getByRole('button', { name: 'Download memories' }).click();
    const file = await (await coming).path();
    await eventually(async () => assert.match(await readFile(file, 'utf8'), /lives in Porto/));
    await tab.getByRole('button', { name: 'Forget everything' }).click();
    await tab.getByRole('dialog').getByRole('button', { name: 'Forget everything' }).click();
    await says('memories forgotten.');
    await gone('You live in Porto.');
    await tab.getByLabel('Import a file').setInputFiles({ name: 'hostile.jsonl', mimeType: 'application/jsonl', buffer: Buffer.from('{"nothing"') });
    await tab.getByRole('alert').waitFor();
    await tab.getByLabel('Import a file').setInputFiles(file);
    await says(/\d+ memories imported, 0 known already\./);
    await item('You live in Porto.').waitFor();

    const answer = { format: 'mem0', imported: 1, skipped: 0, refused: [{ line: 3, reason: 'bad_length' }, { line: 8, reason: 'bad_length' }] };
    await tab.route('**/v1/memories/import', (route) => route.fulfill({ json: answer }));
    await tab.getByLabel('Import a file').setInputFiles(file);
    await says('2 left out, empty or too long: line 3, 8.');
    await tab.unroute('**/v1/memories/import');
  },

  async 'hostile words are words'() {
    const hostile = [
      '<img src=x onerror="alert(1)"><script>alert(2)</script>', '\u202Etxt.exe\u202C and \u2067back\u2069',
      '[a](javascript:alert(3)) {{7*7}}', 'x'.repeat(500),
    ];
    for (const content of hostile) await call('POST', '/v1/memories', { content });
    await tab.reload();
    for (const content of hostile) await item(content).first().waitFor();
    await eventually(async () => assert.equal(await tab.locator('.items img, .items script').count(), 0));
    await fits(tab);
    await call('DELETE', '/v1/memories');
  },

  async 'an account stays where its login cannot be deleted'() {
    await tab.getByRole('button', { name: 'Delete my account' }).click();
    const dialog = tab.getByRole('dialog', { name: 'Delete your account for good?' });
    await dialog.getByLabel('Type “delete” to go on').fill('delete');
    await dialog.getByRole('button', { name: 'Delete my account' }).click();
    await dialog.getByRole('alert').getByText('Accounts cannot be deleted here, and nothing was.').waitFor();
    await dialog.getByRole('button', { name: 'Keep' }).click();
    await focused(/Delete my account/);
    await call('GET', '/v1/memories');
  },

  async 'looks'() {
    const chat = await tell('I am allergic to walnuts. I play the cello.');
    await tell('My sister lives in Porto. I use Neovim.', chat);
    await call('POST', '/v1/memories', { content: 'Prefers short answers with an example.', type: 'preference', pinned: true, durable: true });
    await call('POST', '/v1/memories', { content: 'May be learning Portuguese.', status: 'inbox' });
    for (const options of [{ viewport: phone, colorScheme: 'dark' }, { viewport: desktop, colorScheme: 'light' }]) {
      const other = await newBrowser(options);
      tab = await open(other, '/app/memories');
      await item('Neovim').waitFor();
      await item('Neovim').locator('summary').click();
      await item('Neovim').locator('.changes').waitFor();
      await isAccessible(tab, `memories, ${options.colorScheme}`);
      await tab.evaluate(() => scrollBy(0, document.getElementById('remembered').getBoundingClientRect().top - 72));
      await picture(tab, `memories-${options.viewport.width}-${options.colorScheme}`);
      await tab.setViewportSize({ width: 320, height: 600 });
      await fits(tab);
      await other.close();
    }
  },
});
