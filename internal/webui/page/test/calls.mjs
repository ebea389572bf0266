/** Calls of tools as a person sees and answers them. The model and the tools are those of calls_test.go. */
import { assert, BASE, call, desktop, eventually, fits, isAccessible, newBrowser, open, phone, picture, run } from './harness.mjs';

const release = async (name) => assert.ok((await fetch(`${process.env.STAGE}/release?name=${encodeURIComponent(name)}`, { method: 'POST' })).ok);

const button = (place, name) => place.getByRole('button', { name, exact: true });
const reply = (tab) => tab.locator('.message.assistant').last();
const card = (tab, name) => reply(tab).getByRole('group', { name, exact: true });
const asked = (tab) => tab.locator('.message.user');
const idle = (tab) => button(tab, 'Send').waitFor();

async function say(tab, text) {
  await tab.getByRole('textbox', { name: 'Message', exact: true }).fill(text);
  await button(tab, 'Send').click();
}

/** Waits until the last reply is read so: texts, and the heads of cards between them. */
const reads = (tab, ...lines) => eventually(async () => {
  const shown = await reply(tab).locator('.words, .call-head').allInnerTexts();
  const texts = shown.map((text) => text.replace(/\s+/g, ' ').trim());
  assert.deepEqual(texts.filter(Boolean), lines); // what is folded has no text
});

/** Begins a chat as an app does that can take photos, and returns its id and that of the reply, which waits. */
async function begin(content) {
  const tools = [{ type: 'function', name: 'take_photo', parameters: {} }, { type: 'server', name: 'send_mail' }, { type: 'server', name: 'roll_dice' }];
  const { chat_id: chat, message_id: id, open: waiting } = await call('POST', '/v1/message/first', { content, tools });
  return { path: `/app/chats/${chat}`, id, waiting };
}

/** Answers a call by the API, as another device does. */
const answerElsewhere = ({ id, waiting }, answer) => call('POST', `/v1/messages/${id}/calls/${waiting[0].call_id}`, answer);

const context = await newBrowser();
let tab;

await run({
  async 'a call is a card between the texts, with what it is given and what it came to'() {
    tab = await open(context, '/app/chats/new');
    await say(tab, 'dice please');
    await reads(tab, 'Let me see 🎲.', 'Roll dice Done', 'That makes 1 results.');
    const dice = card(tab, 'Roll dice: Done');
    await dice.getByText('rolls: [1,3] · total: 4').waitFor();
    await dice.getByText('sides: 6').click();
    await eventually(async () => assert.equal(await dice.locator('pre').innerText(), '{\n  "sides": 6\n}'));
    await idle(tab);
    await tab.reload();
    await reads(tab, 'Let me see 🎲.', 'Roll dice Done', 'That makes 1 results.');
  },

  async 'a call waits for approval, through a reload and in another tab, and runs'() {
    await say(tab, 'mail 1');
    const waits = ['Let me see 🎲.', 'Send mail Waits for your approval'];
    await reads(tab, ...waits);
    await tab.getByRole('status').filter({ hasText: 'Send mail: Waits for your approval.' }).waitFor({ state: 'attached' });
    await tab.getByText('Sending a message skips what waits.').waitFor();
    await isAccessible(tab, 'a call that waits');
    await tab.reload();
    await reads(tab, ...waits);
    const second = await open(context, new URL(tab.url()).pathname);
    await reads(second, ...waits);
    await button(card(tab, 'Send mail: Waits for your approval'), 'Approve').focus();
    await tab.keyboard.press('Enter');
    await reads(tab, 'Let me see 🎲.', 'Send mail Running');
    await reads(second, 'Let me see 🎲.', 'Send mail Running');
    await picture(tab, 'calls-running');
    await tab.reload(); // the tool goes on
    await reads(tab, 'Let me see 🎲.', 'Send mail Running');
    await release('mail 1');
    for (const one of [tab, second]) {
      await reads(one, 'Let me see 🎲.', 'Send mail Done', 'That makes 1 results.');
      await idle(one);
      await eventually(async () => assert.equal(await asked(one).count(), 2));
    }
    await card(tab, 'Send mail: Done').getByText('sent', { exact: true }).waitFor();
    await second.close();
  },

  async 'a call is denied, with a reason'() {
    await say(tab, 'mail 2');
    const waits = card(tab, 'Send mail: Waits for your approval');
    await button(waits, 'Deny').click();
    await tab.keyboard.press('Escape');
    await button(waits, 'Deny').click();
    await tab.keyboard.type('Not before noon');
    await tab.keyboard.press('Enter');
    await reads(tab, 'Let me see 🎲.', 'Send mail Denied', 'That makes 1 results.');
    await card(tab, 'Send mail: Denied').getByText('Reason: Not before noon').waitFor();
    await idle(tab);
  },

  async 'what waits is skipped by a message'() {
    await say(tab, 'mail 3');
    await card(tab, 'Send mail: Waits for your approval').waitFor();
    await idle(tab);
    await say(tab, 'dice instead');
    await reads(tab, 'Let me see 🎲.', 'Roll dice Done', 'That makes 1 results.');
    await tab.getByRole('group', { name: 'Send mail: Skipped: the conversation went on' }).waitFor();
    await eventually(async () => assert.equal(await tab.getByRole('button', { name: 'Approve' }).count(), 0));
    assert.equal(await tab.getByText('You stopped this reply.').count(), 0);
  },

  async 'a call of an app is answered in its place, with text, JSON or no'() {
    for (const [answer, output] of [['A blue sea', 'A blue sea'], ['{"width": 640}', 'width: 640'], [undefined, 'The app could not do it.']]) {
      await tab.goto(`${BASE}${(await begin('think photo')).path}`);
      await reply(tab).getByText('Thought about it').waitFor();
      const waits = card(tab, 'Take photo: The app has to answer');
      if (answer?.startsWith('{')) {
        await waits.getByRole('textbox').fill(answer.slice(1, -1).padStart(20, '{'));
        await button(waits, 'Answer').click();
        await waits.getByRole('alert').waitFor();
      }
      if (answer) await waits.getByRole('textbox').fill(answer);
      await button(waits, answer ? 'Answer' : 'Could not do it').click();
      await card(tab, `Take photo: ${answer ? 'Done' : 'Failed'}`).getByText(output, { exact: true }).waitFor();
      await reply(tab).getByText('That makes 1 results.').waitFor();
      await idle(tab);
    }
  },

  async 'of two calls one is answered while the other runs'() {
    const name = 'mail photo';
    await tab.goto(`${BASE}${(await begin(name)).path}`);
    const waits = card(tab, 'Take photo: The app has to answer');
    await waits.getByRole('textbox').fill('A sea');
    await waits.locator('summary').click();
    await button(card(tab, 'Send mail: Waits for your approval'), 'Approve').click();
    await card(tab, 'Send mail: Running').waitFor();
    await button(waits, 'Answer').click();
    await card(tab, 'Take photo: Done').waitFor();
    await card(tab, 'Send mail: Running').waitFor();
    await release(name);
    await reads(tab, 'Let me see 🎲.', 'Send mail Done', 'Take photo Done', 'That makes 2 results.');
    await idle(tab);
    await reply(tab).getByRole('button', { name: 'Good reply' }).waitFor(); // it is stored, and what was opened is open
    assert.equal(await card(tab, 'Take photo: Done').locator('details[open]').count(), 1);
  },

  async 'an answer that comes second, or while another device has the call, says so'() {
    const begun = await begin('photo');
    await tab.goto(`${BASE}${begun.path}`);
    const waits = card(tab, 'Take photo: The app has to answer');
    await waits.getByRole('textbox').fill('Mine');
    await answerElsewhere(begun, { claim: crypto.randomUUID() });
    await button(waits, 'Answer').click();
    await tab.getByText('Another device is answering it.').waitFor();
    assert.equal(await waits.getByRole('textbox').inputValue(), 'Mine');

    const mail = await begin('mail 4');
    await tab.goto(`${BASE}${mail.path}`);
    await card(tab, 'Send mail: Waits for your approval').waitFor();
    const held = []; // what the page asks: else it sees by itself that the call is answered
    await tab.route('**/v1/**', (route) => route.request().method() === 'GET' ? void held.push(route) : route.fallback());
    await answerElsewhere(mail, { approved: false });
    await button(tab, 'Approve').click();
    await tab.unroute('**/v1/**');
    for (const route of held) await route.fallback().catch(() => {}); // the page may ask for it no more
    await tab.getByText('It was answered already.').waitFor();
    await reads(tab, 'Let me see 🎲.', 'Send mail Denied', 'That makes 1 results.');
    await isAccessible(tab, 'a call that was answered already');
  },

  async 'a hostile tool does no harm'() {
    await tab.goto(`${BASE}/app/chats/new`);
    await say(tab, 'odd deep');
    await reads(tab, 'Let me see 🎲.', 'Odd Done', 'Odd Failed', 'That makes 2 results.');
    await idle(tab);
    await button(reply(tab), 'Copy').waitFor({ state: 'attached' }); // it is drawn as it is stored, with its folds closed
    for (const summary of await reply(tab).locator('summary').all()) await summary.click();
    await eventually(async () => {
      const shown = (await reply(tab).locator('pre').allInnerTexts()).join('');
      assert.ok(['<script>window.hurt', '['.repeat(2000), `"<img src=x onerror='window.hurt = 8'>": "\\u202egnirts"`].every((text) => shown.includes(text)));
    });
    assert.equal(await tab.evaluate(() => window.hurt), undefined);
    assert.equal(await reply(tab).locator('script, img, iframe, style, b').count(), 0);
    await fits(tab);
    await isAccessible(tab, 'a hostile tool');
    await tab.evaluate(() => dispatchEvent(new Event('focus'))); // read again, and compared
    await picture(tab, 'calls-hostile');
    await say(tab, 'dice after that');
    await reads(tab, 'Let me see 🎲.', 'Roll dice Done', 'That makes 1 results.');
  },

  async 'it fits a phone and a desktop, in both themes'() {
    const { path } = await begin('think dice mail photo');
    for (const colorScheme of ['light', 'dark']) {
      for (const [name, viewport] of Object.entries({ phone, desktop })) {
        const other = await newBrowser({ viewport, colorScheme });
        const shown = await open(other, path);
        await reads(shown, 'Let me see 🎲.', 'Roll dice Done', 'Send mail Waits for your approval', 'Take photo The app has to answer');
        await picture(shown, `calls-${name}-${colorScheme}`);
        await reply(shown).getByText('Thought about it').click();
        await reply(shown).getByText('sides: 6').click();
        await button(reply(shown), 'Deny').click();
        await fits(shown);
        await isAccessible(shown, `calls on a ${name}, ${colorScheme}`);
        await picture(shown, `calls-open-${name}-${colorScheme}`);
        await other.close();
      }
    }
  },
});
