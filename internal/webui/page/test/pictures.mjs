/** The pictures of README.md and docs/page.md, when SCREENSHOTS names a folder. */
import { assert, call, desktop, eventually, newBrowser, open, phone, picture, run } from './harness.mjs';

async function prepare() {
  const titles = {
    'A walnut-free carrot cake': ['kitchen'], 'Night trains to Vienna': ['travel'], 'Names for a grey cat': [], 'The second Brandenburg concerto': ['music'],
  };
  for (const [title, tags] of Object.entries(titles)) await call('POST', '/v1/message/first', { content: title, tags });
  const { chat_id: id } = await call('POST', '/v1/message/first', {
    content: 'My cello stands beside the heater, and a seam has opened. What should I do before winter?',
    tags: ['cello', 'care'],
    title: 'The cello in winter',
  });
  await call('POST', '/v1/message', { chat_id: id, content: 'And the bow, what does it need?' });
  return id;
}

/** The first minute: said in one chat, known in the next, and why. Four pictures beside each other. */
async function firstMinute() {
  const context = await newBrowser({ viewport: { width: 390, height: 760 } });
  const tab = await open(context, '/app/');
  const shots = [];
  const shoot = async () => shots.push((await tab.screenshot()).toString('base64'));
  const say = async (text) => {
    await tab.getByRole('textbox', { name: 'Message', exact: true }).fill(text);
    if (shots.length === 0) await shoot();
    await tab.getByRole('button', { name: 'Send' }).click();
    await tab.getByRole('button', { name: /^Why/ }).waitFor();
  };
  await say('I am Ada, I am vegetarian and I live in Porto.');
  await shoot();
  await eventually(async () => assert.equal((await call('GET', '/v1/memories')).memories.length, 3));
  await tab.goto(`${new URL(tab.url()).origin}/app/chats/new`);
  await say('What do you know about me?');
  await shoot();
  await tab.getByRole('button', { name: 'Why? 3 memories' }).click();
  await tab.getByRole('link', { name: 'You live in Porto.' }).waitFor();
  await shoot();
  await context.close();

  const strip = await (await newBrowser({ viewport: { width: 1672, height: 808 } })).newPage();
  const images = shots.map((shot) => `<img src="data:image/png;base64,${shot}" style="border:1px solid #d8d2c6;border-radius:24px">`);
  await strip.setContent(`<body style="margin:0;padding:24px 20px;display:flex;gap:20px;background:#fff">${images.join('')}`);
  await picture(strip, 'first-minute');
}

await firstMinute();
const id = await prepare();
for (const colorScheme of ['light', 'dark']) {
  for (const [name, viewport] of Object.entries({ phone, desktop })) {
    const context = await newBrowser({ viewport, colorScheme });
    const tab = await open(context, `/app/chats/${id}`);
    await tab.locator('.message.assistant').last().getByRole('cell').first().waitFor();
    await picture(tab, `talk-${name}-${colorScheme}`);
    await tab.goto(tab.url().replace(/\/chats.*/, '/'));
    await tab.getByRole('link', { name: /Names for a grey cat/ }).waitFor();
    await picture(tab, `list-${name}-${colorScheme}`);
    await context.close();
  }
}
await run({});
