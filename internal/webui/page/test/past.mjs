/** What a person changes of what was said: an edited message, another reply, a version from before. The model is the stage of talk_test.go. */
import { assert, BASE, call, desktop, eventually, fits, isAccessible, newBrowser, open, phone, picture, run, TOKEN, unsent } from './harness.mjs';

const replies = (tab) => tab.locator('.message.assistant');
const asked = (tab) => tab.locator('.message.user');
const button = (place, name) => place.getByRole('button', { name, exact: true });
const said = (tab) => eventually.bind(null, async () => {
  const shown = await tab.locator('.message .words').allInnerTexts();
  return shown.map((text) => text.trim());
});

/** Waits until the conversation is this one, to the word. */
const reads = (tab, ...texts) => eventually(async () => assert.deepEqual(await said(tab)(), texts));
const idle = (tab) => button(tab, 'Send').waitFor();

async function begin(...messages) {
  const { chat_id: id } = await call('POST', '/v1/message/first', { content: messages[0] });
  for (const content of messages.slice(1)) await call('POST', '/v1/message', { chat_id: id, content });
  return id;
}

/** Opens the editor of a message, and writes. */
async function edit(tab, nth, text) {
  await asked(tab).nth(nth).hover();
  await button(asked(tab).nth(nth), 'Edit').click();
  const editor = tab.getByRole('form', { name: 'Edit the message' });
  await editor.getByRole('textbox').fill(text);
  return editor;
}

const context = await newBrowser();
let tab;
let chat;

await run({
  async 'the last reply is tried again at once, and the keyboard walks its versions'() {
    chat = await begin('roll one', 'roll two', 'roll three');
    tab = await open(context, `/app/chats/${chat}`);
    await reads(tab, 'roll one', 'Roll 1.', 'roll two', 'Roll 2.', 'roll three', 'Roll 3.');
    await button(replies(tab).last(), 'Try again').click();
    await reads(tab, 'roll one', 'Roll 1.', 'roll two', 'Roll 2.', 'roll three', 'Roll 4.');
    await replies(tab).last().getByRole('group', { name: 'Version 2 of 2' }).waitFor();
    await button(replies(tab).last(), 'Earlier version').focus();
    await tab.keyboard.press('Enter');
    await reads(tab, 'roll one', 'Roll 1.', 'roll two', 'Roll 2.', 'roll three', 'Roll 3.');
    await tab.getByRole('status').filter({ hasText: 'Version 1 of 2' }).waitFor({ state: 'attached' });
    assert.equal(await tab.evaluate(() => document.activeElement.getAttribute('aria-label')), 'Earlier version', 'the keyboard stays where it was');
    await tab.keyboard.press('Enter'); // there is none before
    await tab.keyboard.press('Tab');
    await tab.keyboard.press('Enter');
    await reads(tab, 'roll one', 'Roll 1.', 'roll two', 'Roll 2.', 'roll three', 'Roll 4.');
  },

  async 'another model answers'() {
    await button(replies(tab).last(), 'More').click();
    await isAccessible(tab, 'the menu of a reply');
    await picture(tab, 'past-menu');
    await button(tab, 'Try again with arco-pro').click();
    await reads(tab, 'roll one', 'Roll 1.', 'roll two', 'Roll 2.', 'roll three', 'Roll 5.');
    const { messages } = await call('GET', `/v1/chats/${chat}/messages`);
    assert.equal(messages.at(-1).metadata.model_variant, 'arco-pro');
  },

  async 'an edit says first what leaves, and Escape leaves all as it was'() {
    let editor = await edit(tab, 1, 'roll twice');
    await editor.getByText('3 later messages leave the conversation. You can come back to them.').waitFor();
    await isAccessible(tab, 'a message that is edited');
    await picture(tab, 'past-edit');
    await tab.keyboard.press('Escape');
    await reads(tab, 'roll one', 'Roll 1.', 'roll two', 'Roll 2.', 'roll three', 'Roll 5.');
    await tab.waitForFunction(() => document.activeElement.getAttribute('aria-label') === 'Edit');
    editor = await edit(tab, 1, 'roll two'); // unchanged
    await button(editor, 'Save').click();
    editor = await edit(tab, 2, 'roll thrice');
    assert.equal(await editor.getByText('leave the conversation').count(), 0, 'the last turn alone is not worth a word');
    await button(editor, 'Cancel').click();
    editor = await edit(tab, 1, 'roll twice');
    await editor.getByText('3 later messages leave').waitFor();
    await tab.keyboard.press('Control+Enter');
    await reads(tab, 'roll one', 'Roll 1.', 'roll twice', 'Roll 6.');
    await asked(tab).nth(1).getByRole('group', { name: 'Version 2 of 2' }).waitFor();
  },

  async 'who goes back finds all as it was, and another tab follows'() {
    const second = await open(context, `/app/chats/${chat}`);
    await reads(second, 'roll one', 'Roll 1.', 'roll twice', 'Roll 6.');
    await button(asked(tab).nth(1), 'Earlier version').click();
    for (const one of [tab, second]) await reads(one, 'roll one', 'Roll 1.', 'roll two', 'Roll 2.', 'roll three', 'Roll 5.');
    await button(asked(tab).nth(1), 'Later version').click();
    await tab.getByText('3 later messages leave the conversation').waitFor();
    await isAccessible(tab, 'a question before a version');
    await picture(tab, 'past-question');
    await tab.keyboard.press('Escape');
    await tab.waitForFunction(() => document.activeElement.getAttribute('aria-label') === 'Later version');
    await tab.keyboard.press('Enter');
    await button(tab, 'Show the other version').click();
    for (const one of [tab, second]) await reads(one, 'roll one', 'Roll 1.', 'roll twice', 'Roll 6.');
    await second.close();
  },

  async 'another reply in the middle asks first'() {
    await button(replies(tab).first(), 'Try again').click();
    await tab.getByText('2 later messages leave the conversation. You can come back to them.').waitFor();
    await button(tab.locator('.question'), 'Cancel').click();
    await button(replies(tab).first(), 'Try again').click();
    await button(tab.locator('.question'), 'Try again').click();
    await reads(tab, 'roll one', 'Roll 7.');
    await idle(tab);
  },

  async 'memories that are forgotten are counted'() {
    const content = 'My cello teacher is called Ilse.';
    const id = await begin(content, 'roll again');
    await call('POST', `/v1/chats/${id}/extract`);
    const { memories } = await call('GET', `/v1/memories?chat_id=${id}`);
    assert.equal(memories.length, 1);
    await tab.goto(`${BASE}/app/chats/${id}`);
    const editor = await edit(tab, 0, 'roll anew');
    await editor.getByText('3 later messages leave the conversation. You can come back to them. 1 memory learnt from them is forgotten.').waitFor();
    await picture(tab, 'past-memory');
    await button(editor, 'Save').click();
    await reads(tab, 'roll anew', 'Roll 9.');
    assert.deepEqual((await call('GET', `/v1/memories?chat_id=${id}`)).memories, []);
  },

  async 'a model that fails after an edit is asked again, and the arrows lead back'() {
    await idle(tab);
    await button(await edit(tab, 0, 'fail once'), 'Save').click();
    await tab.getByRole('alert').getByRole('button', { name: 'Try again' }).waitFor();
    await reads(tab, 'fail once', 'One two three');
    await isAccessible(tab, 'an edit whose reply failed');
    await picture(tab, 'past-failed');
    await button(asked(tab).first(), 'Earlier version').click();
    await reads(tab, 'roll anew', 'Roll 9.');
    assert.equal(await tab.locator('.failure').count(), 0);
    await button(asked(tab).first(), 'Later version').click();
    await reads(tab, 'fail once', 'One two three');
    await button(replies(tab).last(), 'Try again').click();
    await reads(tab, 'fail once', 'The second attempt worked.');
    await idle(tab);
  },

  async 'another reply that is refused leads back to the one before'() {
    const id = await begin('waver');
    await tab.goto(`${BASE}/app/chats/${id}`);
    await replies(tab).first().waitFor();
    const before = await said(tab)();
    await button(replies(tab).first(), 'Try again').click();
    const failure = tab.locator('.failure');
    await button(failure, 'Try again').waitFor();
    await button(failure, 'Earlier version').click();
    await reads(tab, ...before);
    await failure.waitFor({ state: 'detached' });
  },

  async 'what another device changed meanwhile is shown, and no text is lost'() {
    chat = await begin('roll early', 'roll late');
    await tab.goto(`${BASE}/app/chats/${chat}`);
    await replies(tab).nth(1).waitFor();
    let known; // the list as it was: it is read again only when the test says so
    await tab.route('**/v1/chats/*/messages?*', async (route) => {
      known ??= await (await route.fetch({ headers: { ...route.request().headers(), 'if-none-match': '' } })).text();
      await route.fulfill({ contentType: 'application/json', body: known });
    });
    await tab.evaluate(() => dispatchEvent(new Event('focus')));
    await eventually(() => assert.ok(known));
    await call('POST', '/v1/message', { chat_id: chat, content: 'roll elsewhere' });
    await button(await edit(tab, 1, 'roll my own'), 'Save').click();
    await tab.getByText('The conversation was changed on another device. Here it is as it is now.').waitFor();
    const written = tab.getByRole('textbox', { name: 'Message', exact: true });
    await eventually(async () => assert.equal(await written.inputValue(), 'roll my own'));
    await tab.unroute('**/v1/chats/*/messages?*');
    await tab.evaluate(() => dispatchEvent(new Event('focus')));
    await asked(tab).filter({ hasText: 'roll elsewhere' }).waitFor();
    assert.equal(await written.inputValue(), 'roll my own');
    await isAccessible(tab, 'a conflict');
    await picture(tab, 'past-conflict');
    await written.fill('');
  },

  async 'a reply that began and ended before it was drawn is read as it is stored'() {
    const late = await context.newPage();
    await late.clock.install();
    await late.goto(`${BASE}/app/chats/${await begin('roll early')}#token=${TOKEN}`);
    await replies(late).first().waitFor();
    await late.clock.pauseAt(new Date(Date.now() + 60_000));
    await late.getByRole('textbox', { name: 'Message', exact: true }).fill('roll quickly');
    await button(late, 'Send').click();
    await eventually(async () => assert.equal(await unsent(late), 0));
    await late.clock.runFor(5000); // less than until the list is read by itself
    await button(replies(late).nth(1), 'Try again').waitFor();
    await late.close();
  },

  async 'it fits a phone and a desktop, in both themes'() {
    const id = await begin('roll the dice for me, and say what the number means', 'roll once more', 'roll for the last time');
    await call('POST', '/v1/message', { chat_id: id, replaces: (await call('GET', `/v1/chats/${id}/messages`)).messages.at(-1).id });
    for (const colorScheme of ['light', 'dark']) {
      for (const [name, viewport] of Object.entries({ phone, desktop })) {
        const other = await newBrowser({ viewport, colorScheme });
        const shown = await open(other, `/app/chats/${id}`);
        const editor = await edit(shown, 1, 'roll twice instead');
        await editor.getByText('later messages leave').waitFor();
        await button(replies(shown).first(), 'Try again').click();
        await shown.locator('.question').waitFor();
        await fits(shown);
        await isAccessible(shown, `the past on a ${name}, ${colorScheme}`);
        await picture(shown, `past-${name}-${colorScheme}`);
        await button(replies(shown).last(), 'Earlier version').click();
        await replies(shown).last().getByRole('group', { name: 'Version 1 of 2' }).waitFor();
        await button(replies(shown).last(), 'Later version').click();
        await replies(shown).last().getByRole('group', { name: 'Version 2 of 2' }).waitFor();
        await button(replies(shown).last(), 'More').click();
        await fits(shown);
        await picture(shown, `past-menu-${name}-${colorScheme}`);
        await other.close();
      }
    }
  },
});
