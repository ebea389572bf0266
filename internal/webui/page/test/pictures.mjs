/** The pictures of docs/page.md, when SCREENSHOTS names a folder. */
import { call, desktop, newBrowser, open, phone, picture, run } from './harness.mjs';

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
