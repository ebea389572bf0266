/** What a person does in a chat. The model is the stage of talk_test.go. */
import { assert, BASE, call, desktop, eventually, isAccessible, newBrowser, open, phone, picture, run, unsent } from './harness.mjs';

const stage = async (path) => assert.equal((await fetch(process.env.STAGE + path, { method: 'POST' })).status, 200);
const release = (name) => stage(`/release?name=${encodeURIComponent(name)}`);

const held = 'One two three four five six seven eight nine ten.';
const composer = (tab) => tab.getByRole('textbox', { name: 'Message', exact: true });
const replies = (tab) => tab.locator('.message.assistant');
const asked = (tab) => tab.locator('.message.user .words');
const words = (tab, nth = -1) => replies(tab).nth(nth).locator('.words');

async function say(tab, text) {
  await composer(tab).fill(text);
  await tab.getByRole('button', { name: 'Send' }).click();
}

async function more(message, name) {
  await message.getByRole('button', { name: 'More' }).click();
  await message.getByRole('button', { name, exact: true }).click();
}

/** Waits until a locator has a text, to the letter but for white space. */
async function reads(locator, text) {
  const literally = (words) => RegExp.escape?.(words) ?? words.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const hasText = text instanceof RegExp ? text : new RegExp(`^\\s*${literally(text)}\\s*$`);
  await locator.filter({ hasText }).first().waitFor();
}

const context = await newBrowser({ permissions: ['clipboard-read', 'clipboard-write'] });
let tab;
let chat; // its address

await run({
  async 'the first message begins a chat, and the reply streams'() {
    tab = await open(context, '/app/');
    await tab.getByText('You have no chats yet.').waitFor();
    await tab.getByRole('link', { name: 'New chat' }).click();
    await say(tab, 'hold the cello');
    await reads(words(tab), 'One two three');
    await tab.waitForURL(/\/app\/chats\/[0-9a-f-]{36}$/);
    chat = new URL(tab.url()).pathname;
    await tab.waitForFunction(() => document.activeElement.tagName === 'TEXTAREA'); // the keyboard stays in the composer
    await picture(tab, 'talk-streaming');
    await isAccessible(tab, 'a running reply');
  },

  async 'a reload in mid-reply goes on, and so does a second tab'() {
    await tab.reload();
    await reads(words(tab), 'One two three');
    const second = await open(context, chat);
    await reads(words(second), 'One two three');
    await release('hold the cello');
    for (const one of [tab, second]) {
      await reads(words(one), held);
      await one.getByRole('button', { name: 'Send' }).waitFor();
      await eventually(async () => assert.equal(await replies(one).count(), 1));
      await eventually(async () => assert.equal(await asked(one).count(), 1));
    }
    await second.getByRole('status').filter({ hasText: 'Reply: One two three' }).waitFor({ state: 'attached' });
    await second.close();
  },

  async 'a reply that begins in one tab appears in the other'() {
    const second = await open(context, chat);
    await replies(second).first().waitFor();
    await say(tab, 'hold the bow');
    await reads(words(second), 'One two three');
    await reads(asked(second).last(), 'hold the bow');
    await second.getByRole('button', { name: 'Stop the reply' }).click();
    for (const one of [tab, second]) {
      await one.getByText('You stopped this reply.').waitFor();
      await one.getByRole('button', { name: 'Send' }).waitFor();
      await eventually(async () => assert.equal(await replies(one).count(), 2));
    }
    await release('hold the bow');
    await second.close();
  },

  async 'another device follows by itself'() {
    const second = await open(await newBrowser(), chat);
    await replies(second).first().waitFor();
    await say(tab, 'hold the pegs');
    await reads(words(second), 'One two three');
    await reads(asked(second).last(), 'hold the pegs');
    await release('hold the pegs');
    for (const one of [tab, second]) await reads(words(one), held);
    await tab.getByRole('button', { name: 'Send' }).waitFor();
    await second.context().close();
  },

  async 'Return ends a word that is composed, and a line on a phone'() {
    await composer(tab).fill('にほん');
    await composer(tab).evaluate((input) => {
      for (const composed of [{ isComposing: true }, { keyCode: 229 }]) {
        input.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, ...composed }));
      }
    });
    await eventually(async () => assert.equal(await composer(tab).inputValue(), 'にほん'));
    await composer(tab).fill('');
    const touched = await newBrowser({ hasTouch: true, isMobile: true });
    const phone = await open(touched, chat);
    await composer(phone).fill('One line');
    await composer(phone).press('Enter');
    await eventually(async () => assert.equal(await composer(phone).inputValue(), 'One line\n'));
    await touched.close();
  },

  async 'a reply that broke off is tried again, and replaced'() {
    await say(tab, 'fail once');
    await tab.locator('.failure').getByRole('button', { name: 'Try again' }).waitFor();
    await reads(words(tab), /^One two three/);
    await isAccessible(tab, 'a failed reply');
    await picture(tab, 'talk-failed');
    await tab.reload();
    await tab.locator('.failure').getByRole('button', { name: 'Try again' }).click();
    await reads(words(tab), 'The second attempt worked.');
    await tab.getByRole('button', { name: 'Send' }).waitFor();
    await eventually(async () => assert.equal(await asked(tab).filter({ hasText: 'fail once' }).count(), 1));
    await eventually(async () => assert.equal(await replies(tab).count(), 4));
  },

  async 'a message that the model refuses is stored, and tried again'() {
    await say(tab, 'refuse the bow once');
    await tab.locator('.failure').getByRole('button', { name: 'Try again' }).waitFor();
    await eventually(async () => assert.equal(await asked(tab).filter({ hasText: 'refuse the bow once' }).count(), 1));
    await tab.reload();
    await asked(tab).filter({ hasText: 'fail once' }).waitFor(); // the list is there
    await tab.locator('.failure').getByRole('button', { name: 'Try again' }).waitFor();
    await eventually(async () => assert.equal(await asked(tab).filter({ hasText: 'refuse the bow once' }).count(), 1));
    await eventually(async () => assert.equal(await tab.getByText('This reply broke off.').count(), 0));
    await tab.locator('.failure').getByRole('button', { name: 'Try again' }).click();
    await reads(words(tab), /refuse the bow once/);
    await tab.getByRole('button', { name: 'Send' }).waitFor();
    await eventually(async () => assert.equal(await asked(tab).filter({ hasText: 'refuse the bow once' }).count(), 1));
    await eventually(async () => assert.equal(await replies(tab).count(), 5));
  },

  async 'Markdown is drawn'() {
    await say(tab, 'markdown please');
    const reply = replies(tab).last();
    await reply.getByRole('heading', { name: 'Steps' }).waitFor();
    await tab.getByRole('button', { name: 'Send' }).waitFor();
    await eventually(async () => assert.equal(await reply.locator('strong').innerText(), 'rosin'));
    await eventually(async () => assert.equal(await reply.locator('pre').innerText(), 'wipe --gently bow'));
    await eventually(async () => assert.equal(await reply.getByRole('cell').first().innerText(), 'dark'));
    const link = reply.getByRole('link', { name: 'the maker' });
    const safe = ['https://example.com/rosin', 'noopener noreferrer nofollow', '_blank'];
    await eventually(async () => assert.deepEqual(await link.evaluate(({ href, rel, target }) => [href, rel, target]), safe));
    await isAccessible(tab, 'Markdown');
    await picture(tab, 'talk-phone');
  },

  async 'a reply is rated, pinned, copied and deleted'() {
    const reply = replies(tab).last();
    await reply.getByRole('button', { name: 'Good reply' }).click();
    await reply.locator('[aria-label="Good reply"][aria-pressed="true"]').waitFor();
    await more(reply, 'Pin');
    await reply.getByText('Pinned').waitFor();
    await reply.getByRole('button', { name: 'Copy', exact: true }).click();
    await tab.getByText('Copied.').waitFor({ state: 'attached' });
    await eventually(async () => assert.match(await tab.evaluate(() => navigator.clipboard.readText()), /^A bow needs \*\*rosin\*\*/));
    let messages;
    await eventually(async () => {
      ({ messages } = await call('GET', `/v1/chats/${chat.split('/').at(-1)}/messages`));
      assert.deepEqual([messages.at(-1).rating, messages.at(-1).pinned], [1, true]);
    });
    await eventually(async () => assert.equal(await reply.getByRole('button', { name: 'Why?' }).getAttribute('data-why'), messages.at(-1).id));

    await more(reply, 'Delete');
    await tab.getByRole('dialog').getByRole('button', { name: 'Keep it' }).click();
    await more(reply, 'Delete');
    await isAccessible(tab, 'a question');
    await tab.getByRole('dialog').getByRole('button', { name: 'Delete it' }).click();
    await reply.getByText('A bow needs').waitFor({ state: 'detached' });
    await eventually(async () => assert.equal((await call('GET', `/v1/chats/${chat.split('/').at(-1)}/messages`)).messages.length, messages.length - 1));
  },

  async 'the title and tags are changed, in the list of another tab as well'() {
    const second = await open(context, '/app/');
    await second.setViewportSize(desktop);
    await second.getByRole('link', { name: /hold the cello/ }).waitFor();
    await tab.getByRole('button', { name: 'Change the title' }).click();
    await isAccessible(tab, 'the settings of a chat');
    await tab.getByRole('textbox', { name: 'Title' }).fill('Strings');
    await tab.getByRole('textbox', { name: 'Tags' }).fill('cello, care');
    await tab.getByRole('button', { name: 'Save' }).click();
    await tab.getByRole('heading', { name: 'Strings', level: 1 }).waitFor();
    await eventually(async () => assert.match(await tab.title(), /^Strings/));
    await second.getByRole('link', { name: /Strings/ }).waitFor();
    await call('POST', '/v1/chats', { title: 'Another', tags: ['travel'] });
    await second.reload();
    await second.getByRole('link', { name: /Another/ }).waitFor();
    await second.getByRole('button', { name: 'care' }).click();
    await second.getByRole('link', { name: /Another/ }).waitFor({ state: 'detached' });
    await second.getByRole('link', { name: /Strings/ }).waitFor();
    await isAccessible(second, 'the list with a tag');
    await second.close();
  },

  async 'a search finds the message and goes to it'() {
    await tab.goto(`${BASE}/app/`);
    await tab.getByRole('button', { name: /^Search/ }).click();
    await tab.getByRole('combobox', { name: /^Search/ }).fill('attempt');
    const found = tab.getByRole('option', { name: /The second attempt/ });
    await found.waitFor();
    await eventually(async () => assert.equal(await found.locator('mark').innerText(), 'attempt'));
    await isAccessible(tab, 'a search');
    await found.click();
    await tab.waitForFunction(() => document.activeElement?.matches('article') && document.activeElement.textContent.includes('second attempt'));
  },

  async 'a hostile reply does no harm'() {
    await say(tab, 'hostile');
    await reads(words(tab), /<script>window\.hurt/);
    await tab.getByRole('button', { name: 'Send' }).waitFor();
    await eventually(async () => assert.equal(await tab.evaluate(() => window.hurt), undefined));
    const reply = replies(tab).last();
    await eventually(async () => assert.equal(await reply.locator('script, img, iframe, style').count(), 0));
    await eventually(async () => assert.deepEqual(await reply.locator('a:not(.action)').evaluateAll((links) => links.map((link) => link.protocol)), []));
    await eventually(async () => assert.ok(await tab.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'the page is wider than the screen'));
    await isAccessible(tab, 'a hostile reply');
    const title = '</title><script>window.hurt = 7</script>\u202Eeltit';
    await call('PATCH', `/v1/chats/${chat.split('/').at(-1)}`, { title, tags: ['<b>bold</b>', '\u202Egat'] });
    await tab.reload();
    await tab.getByRole('heading', { name: /window\.hurt/ }).waitFor();
    await eventually(async () => assert.equal(await tab.evaluate(() => window.hurt), undefined));
  },

  async 'a temporary chat is not remembered'() {
    await tab.goto(`${BASE}/app/chats/new`);
    await tab.getByRole('switch', { name: 'Temporary chat' }).check();
    await say(tab, 'This stays between us.');
    await tab.waitForURL(/\/app\/chats\/[0-9a-f-]{36}$/);
    await tab.locator('.badge', { hasText: 'temporary' }).waitFor();
    const { remember } = await call('GET', `/v1/chats/${tab.url().split('/').at(-1)}`);
    assert.equal(remember, false);
  },

  async 'a text file goes along, others are refused'() {
    const chooser = tab.locator('input[type=file]');
    await chooser.setInputFiles({ name: 'photo.jpg', mimeType: 'image/jpeg', buffer: Buffer.from([0xff, 0xd8, 0]) });
    await tab.getByText('photo.jpg is no text file.').waitFor();
    await chooser.setInputFiles({ name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('Practise slowly.') });
    await tab.locator('.attachments').getByText('notes.txt').waitFor();
    await say(tab, 'What do my notes say?');
    await tab.locator('.message.user .attached').getByText('notes.txt').waitFor();
  },

  async 'a chat is deleted'() {
    await tab.getByRole('button', { name: 'Change the title' }).click();
    await tab.getByRole('button', { name: 'Delete the chat' }).click();
    await tab.getByRole('button', { name: 'Delete it' }).click();
    await tab.waitForURL(`${BASE}/app/`);
    await tab.getByRole('link', { name: /This stays between us/ }).waitFor({ state: 'detached' });
  },

  async 'typed text survives a reload'() {
    await tab.goto(BASE + chat);
    await composer(tab).fill('Half a thought');
    await tab.reload();
    await eventually(async () => assert.equal(await composer(tab).inputValue(), 'Half a thought'));
    await composer(tab).fill('');
  },

  async 'a server that is away is said, and the message goes out when it is back'() {
    await replies(tab).first().waitFor();
    const before = await asked(tab).count();
    await stage('/stop');
    await say(tab, 'Are you there?');
    await tab.getByText('What you write is kept').waitFor();
    await isAccessible(tab, 'an unreachable server');
    await picture(tab, 'talk-unreachable');
    await stage('/start');
    await tab.getByText('What you write is kept').waitFor({ state: 'detached' });
    await reads(asked(tab).last(), 'Are you there?');
    await tab.getByRole('button', { name: 'Send' }).waitFor();
    await eventually(async () => assert.equal(await asked(tab).count(), before + 1));
  },

  async 'an unsent message survives a reload, or is taken back'() {
    await stage('/stop');
    await say(tab, 'Rather not');
    await tab.getByRole('button', { name: 'Stop the reply' }).click();
    await tab.getByRole('button', { name: 'Send' }).waitFor();
    await eventually(async () => assert.equal(await composer(tab).inputValue(), 'Rather not'));
    await eventually(async () => assert.equal(await asked(tab).filter({ hasText: 'Rather not' }).count(), 0));
    await say(tab, 'Sent from a tunnel');
    await tab.getByText('What you write is kept').waitFor();
    await eventually(async () => assert.equal(await unsent(tab), 1));
    await stage('/start');
    await tab.reload();
    await reads(asked(tab).last(), 'Sent from a tunnel');
    await tab.getByRole('button', { name: 'Send' }).waitFor();
    await eventually(async () => assert.equal(await unsent(tab), 0));
  },

  async 'signing out leaves nothing'() {
    await composer(tab).fill('Nobody else should read this');
    const second = await open(context, chat);
    await replies(second).first().waitFor();
    await tab.getByRole('link', { name: 'All chats' }).click(); // on a phone the bar of a chat has other things
    await tab.getByRole('button', { name: /Sign out/ }).click();
    for (const one of [tab, second]) {
      await one.getByLabel('Access token').waitFor();
      await isAccessible(one, 'signing in');
    }
    await eventually(async () => assert.deepEqual(await tab.evaluate(() => Object.keys(localStorage).filter((key) => key !== 'throughline.theme')), []));
    await eventually(async () => assert.equal(await second.evaluate(() => sessionStorage.getItem('throughline.token')), null));
    await picture(tab, 'sign-in');
    await tab.getByLabel('Access token').fill('nonsense');
    await tab.getByRole('button', { name: 'Sign in' }).click();
    await tab.getByText('This is no access token').waitFor();
    await tab.getByLabel('Access token').fill(process.env.TOKEN);
    await tab.getByRole('button', { name: 'Sign in' }).click();
    await tab.getByRole('link', { name: 'New chat' }).waitFor();
    await tab.goto(`${BASE}${chat}`);
    await replies(tab).first().waitFor();
    await eventually(async () => assert.equal(await composer(tab).inputValue(), ''));
  },

  async 'a token that has expired is replaced, and the draft goes out'() {
    const other = await newBrowser();
    let answer; // to one request with the old token: it comes when the new one is there
    const answered = new Promise((resolve) => (answer = resolve));
    await other.route('**/v1/chats?*', async (route) => {
      const response = await route.fetch();
      assert.equal(response.status(), 401);
      await answered;
      await route.fulfill({ response });
    }, { times: 1 });
    const late = await open(other, chat, process.env.EXPIRED);
    const dialog = late.getByRole('dialog', { name: 'Your session has ended' });
    await dialog.waitFor();
    await dialog.getByLabel('Access token').fill(process.env.TOKEN);
    await dialog.getByRole('button', { name: 'Sign in' }).click();
    await replies(late).first().waitFor();
    await dialog.waitFor({ state: 'detached' });
    const again = late.waitForResponse((response) => response.url().includes('/v1/chats?') && response.ok());
    answer();
    await again;
    assert.equal(await dialog.count(), 0);
  },
});
