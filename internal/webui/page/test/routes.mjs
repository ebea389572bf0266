/** Every route opens by its address, has a heading, and axe finds nothing, in both themes. */
import { assert, call, desktop, eventually, isAccessible, newBrowser, open, phone, run } from './harness.mjs';

const { id } = await call('POST', '/v1/chats', { title: 'A chat' });
const said = [{ role: 'user', content: 'Which?' }, { role: 'assistant', content: 'This:\n\n- **one**\n\n> two' }];
await call('POST', `/v1/chats/${id}/messages`, { messages: said });
await call('POST', '/v1/memories', { content: 'The user lives in Porto.' });
const routes = [
  '/app/', '/app/chats/new', '/app/chats/not-an-id', `/app/chats/${id}`, `/app/chats/${id}/memory`, `/app/chats/${id}/topics`,
  '/app/memories', '/app/memories/graph', '/app/oauth/consent', '/app/nowhere',
];

async function visit(options) {
  const context = await newBrowser(options);
  for (const route of routes) {
    const tab = await open(context, route);
    await tab.locator('h1').first().waitFor();
    assert.equal(new URL(tab.url()).hash, '', 'the token stays in the address');
    await isAccessible(tab, route);
    await tab.close();
  }
  await context.close();
}

/** How each element of the page looks, in the order of the page. */
const looks = (tab) => tab.evaluate(() => [...document.querySelectorAll('main, main *')].map((element) => {
  const style = getComputedStyle(element);
  const names = ['display', 'font', 'whiteSpace', 'color', 'background', 'padding', 'margin', 'border', 'textAlign', 'minHeight', 'gap'];
  return `${element.tagName}.${element.getAttribute('class') ?? ''}: ${names.map((name) => style[name]).join('; ')}`;
}));

await run({
  async 'without a project the page says what it has not'() {
    const context = await newBrowser();
    const tab = await open(context, '/app/oauth/consent');
    await tab.getByText('No programs can be connected here').waitFor();
    await tab.getByRole('button', { name: /^Sign out/ }).click();
    await tab.getByText('need a Supabase project').waitFor();
    await isAccessible(tab, 'signing in without a project');
    await context.close();
  },
  async 'a room looks the same after a walk through the others'() {
    const context = await newBrowser({ viewport: desktop, reducedMotion: 'reduce' });
    const walker = await open(context, '/app/');
    await walker.locator('main').waitFor();
    const walk = (route) => walker.evaluate((to) => {
      history.pushState(null, '', to);
      dispatchEvent(new PopStateEvent('popstate'));
    }, route);
    for (const route of [...routes, ...routes]) {
      const tab = await open(context, route);
      await walk(route);
      await eventually(async () => {
        const [walked, fresh] = [await looks(walker), await looks(tab)];
        const at = walked.findIndex((look, at) => look !== fresh[at]);
        assert.equal(walked[at], fresh[at], `${route}: ${at} of ${fresh.length}`);
      });
      await tab.close();
    }
    await context.close();
  },
  'on a phone, in the light': () => visit({ viewport: phone, colorScheme: 'light' }),
  'on a desktop, in the dark': () => visit({ viewport: desktop, colorScheme: 'dark' }),
});
