/** Every route opens by its address, has a heading, and axe finds nothing, in both themes. */
import { assert, call, desktop, isAccessible, newBrowser, open, phone, run } from './harness.mjs';

const { id } = await call('POST', '/v1/chats', { title: 'A chat' });
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
  'on a phone, in the light': () => visit({ viewport: phone, colorScheme: 'light' }),
  'on a desktop, in the dark': () => visit({ viewport: desktop, colorScheme: 'dark' }),
});
