/** Long chats, the keyboard, narrow screens, themes. */
import { assert, BASE, call, desktop, eventually, fits, isAccessible, newBrowser, open, picture, run } from './harness.mjs';

const { id } = await call('POST', '/v1/chats', { title: 'A long one', tags: ['long'] });
for (let from = 1; from <= 240; from += 80) {
  const messages = Array.from({ length: 80 }, (_, n) => ({
    role: n % 2 ? 'assistant' : 'user',
    content: `This is number ${from + n}.\n\n${'It has some words. '.repeat(from % 7 * 5)}`,
  }));
  await call('POST', `/v1/chats/${id}/messages`, { messages });
}

const context = await newBrowser();
let tab;

/** Where a message is on the screen, or undefined. */
const top = (number) => tab.evaluate((text) => {
  const found = [...document.querySelectorAll('article')].find((one) => one.innerText.includes(text));
  return found?.getBoundingClientRect().top;
}, `This is number ${number}.`);

/** A reply with all that is formatted. */
const formatted = `# Two hotels

| hotel | nights | breakfast |
|:--|--:|:-:|
| Casa do Almada in Porto | 12 | until noon, in the garden, also for guests of the other house |

It costs $5 and $6. Then $E=mc^2$, \\(a_1\\), and:

\\[ \\sqrt{2} \\]

A mistake: $\\frac{1$.

\`\`\`go
func main() { println("hello") }
\`\`\`

\`\`\`
plain
\`\`\`

- שלום
- hello

\`$not_math$\` stays, and so does \`\`a \` $b_1$\`\`, https://example.com/$c_1$, \\[1\\] and $20/month here, or 15$ there.

    $d_1$ indented

\`\`\`
\`\`\` in it: $e_1$
\`\`\`
`;

await run({
  async 'a long chat opens at its end, and loads older messages without a jump'() {
    tab = await open(context, `/app/chats/${id}`);
    await tab.getByText('This is number 240.').waitFor();
    await tab.waitForFunction(() => innerHeight + scrollY >= document.documentElement.scrollHeight - 1);
    await eventually(async () => assert.equal(await top(190), undefined));
    const before = await tab.evaluate(() => {
      scrollTo(0, 300); // near the top, where older ones are loaded
      return [...document.querySelectorAll('article')].find((one) => one.innerText.includes('number 191.')).getBoundingClientRect().top;
    });
    await tab.getByText('This is number 141.').waitFor({ state: 'attached' });
    const after = await top(191);
    assert.ok(Math.abs(after - before) < 3, `number 191 jumped from ${before} to ${after}`);
    const newest = await top(240);
    await call('POST', `/v1/chats/${id}/messages`, { messages: [{ role: 'user', content: 'From another device.' }] });
    await tab.evaluate(() => dispatchEvent(new Event('focus')));
    await tab.getByText('From another device.').waitFor({ state: 'attached' });
    await eventually(async () => assert.ok(Math.abs(newest - await top(240)) < 3, 'a new message moved the text that is read'));
  },

  async 'an address names a message of long ago'() {
    await tab.goto(`${BASE}/app/chats/${id}?seq=7`);
    await tab.waitForFunction(() => document.activeElement?.matches('article') && document.activeElement.innerText.includes('number 7.'));
    const at = await top(7);
    assert.ok(at > 0 && at < 844, `number 7 is at ${at}`);
  },

  async 'a chat that does not exist says so'() {
    await tab.goto(`${BASE}/app/chats/${crypto.randomUUID()}`);
    await tab.getByRole('heading', { name: 'This chat is not here' }).waitFor();
    await tab.getByRole('link', { name: 'Your chats' }).waitFor();
    await isAccessible(tab, 'no chat');
  },

  async 'all of it works by the keyboard'() {
    const wide = await newBrowser({ viewport: desktop });
    tab = await open(wide, '/app/');
    await tab.getByRole('link', { name: /A long one/ }).waitFor();
    await tab.keyboard.press('Tab');
    await eventually(async () => assert.equal(await tab.evaluate(() => document.activeElement.textContent), 'Skip to the content'));
    await isAccessible(tab, 'the link to the content');
    for (let n = 0; n < 20 && !(await tab.evaluate(() => document.activeElement.textContent.startsWith('A long one'))); n++) await tab.keyboard.press('Tab');
    const outline = () => tab.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    await eventually(async () => assert.notEqual(await outline(), 'none', 'the focus cannot be seen'));
    await tab.keyboard.press('Enter');
    await tab.waitForFunction(() => document.activeElement?.matches('h1') && document.activeElement.innerText === 'A long one');
    await tab.getByText('This is number 240.').waitFor({ state: 'attached' });
    for (let n = 0; n < 9 && !(await tab.evaluate(() => document.activeElement.textContent === 'Skip to writing')); n++) await tab.keyboard.press('Tab');
    await tab.keyboard.press('Enter');
    await tab.waitForFunction(() => document.activeElement.tagName === 'TEXTAREA');
    await tab.keyboard.type('Two lines,');
    await tab.keyboard.press('Shift+Enter');
    await tab.keyboard.type('by hand.');
    await tab.keyboard.press('Enter');
    await tab.locator('.message.user .words').filter({ hasText: 'Two lines,\nby hand.' }).waitFor();
    await tab.getByRole('button', { name: 'Send' }).waitFor();
    await tab.getByRole('button', { name: 'Change the title' }).focus();
    await tab.keyboard.press('Enter');
    await tab.getByRole('dialog').waitFor();
    await tab.keyboard.press('Escape');
    await tab.getByRole('dialog').waitFor({ state: 'detached' });
    const focused = () => tab.evaluate(() => document.activeElement.ariaLabel);
    await eventually(async () => assert.match(await focused(), /Change the title/, 'the keyboard is lost after a dialog'));
  },

  async 'the theme is chosen and kept'() {
    const ground = () => tab.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await ground();
    await tab.getByRole('button', { name: 'Theme: system' }).click();
    await tab.getByRole('button', { name: 'Theme: light' }).click();
    await eventually(async () => assert.notEqual(await ground(), light));
    const dark = await ground();
    await tab.reload();
    await tab.getByRole('button', { name: 'Theme: dark' }).waitFor();
    await eventually(async () => assert.equal(await ground(), dark));
  },

  async 'the narrowest screens need no scrolling to the side, and nothing moves for those who want that'() {
    const narrow = await newBrowser({ viewport: { width: 320, height: 512 }, reducedMotion: 'reduce' });
    for (const path of ['/app/', `/app/chats/${id}`, '/app/chats/new']) {
      tab = await open(narrow, path);
      await tab.locator('h1').first().waitFor();
      await tab.waitForLoadState('networkidle');
      await eventually(async () => assert.ok(await tab.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${path} is wider than the screen`));
      await isAccessible(tab, `${path} on a narrow screen`);
      await tab.close();
    }
  },

  async 'tables, formulas and code are drawn, and what they need is fetched with the first of them'() {
    const fetched = [];
    tab = await open(context, `/app/chats/${id}`);
    tab.on('request', (request) => fetched.push(request.url()));
    await tab.getByText('This is number 240.').waitFor();
    assert.ok(!fetched.some((url) => /katex|lowlight/.test(url)), 'nothing is fetched for prose');
    await call('POST', `/v1/chats/${id}/messages`, { messages: [{ role: 'assistant', content: formatted }] });
    await tab.reload();
    const words = tab.locator('.words').last();
    await words.locator('math').nth(2).waitFor({ state: 'attached' });
    assert.equal(await words.locator('math').count(), 3);
    assert.equal(await words.locator('.formula', { hasText: '\\frac' }).innerText(), '\\frac{1');
    assert.match(await words.innerText(), /It costs \$5 and \$6\. Then/);
    assert.match(await words.innerText(), /\$not_math\$ stays/);

    for (const kept of ['$b_1$', '$c_1$', '[1]', '$20/month here, or 15$', '$d_1$', '$e_1$']) assert.ok((await words.innerText()).includes(kept), kept);

    await words.locator('.hljs-keyword').waitFor();
    assert.deepEqual(await words.locator('figcaption span').allInnerTexts(), ['go', 'Code', 'Code', 'Code']);
    await context.grantPermissions(['clipboard-read', 'clipboard-write']);
    await words.getByRole('button', { name: 'Copy the code' }).nth(1).click();
    await eventually(async () => assert.equal(await tab.evaluate(() => navigator.clipboard.readText()), 'plain'));

    const looks = (place) => place.evaluate((one) => [getComputedStyle(one).textAlign, getComputedStyle(one).direction].join(' '));
    assert.equal(await looks(words.locator('td').nth(1)), 'right ltr');
    assert.equal(await looks(words.locator('td').nth(2)), 'center ltr');
    assert.equal(await looks(words.locator('li').first()), 'start rtl');
    assert.equal(await looks(words.locator('li').last()), 'start ltr');
    const lines = (selector) => words.locator(selector).evaluate((one) => one.getClientRects().length && new Set([...one.childNodes].flatMap((node) => {
      const range = document.createRange();
      range.selectNodeContents(node);
      return [...range.getClientRects()].map(({ top: line }) => line);
    })).size);
    assert.equal(await lines('th:nth-child(3)'), 1, 'a heading is broken');
    await fits(tab);
    await isAccessible(tab, 'a formatted reply');
    await picture(tab, 'talk-formatted');
  },

  async 'a message that cannot be drawn is shown as its text, and the others as they are'() {
    await tab.route('**/messages?*', async (route) => {
      const answer = await route.fetch();
      const page = await answer.json();
      const broken = page.messages.find(({ content }) => content.includes('This is number 240.'));
      broken.parts = [null];
      await route.fulfill({ response: answer, json: page });
    });
    await tab.reload();
    await tab.getByText('This message could not be drawn').waitFor();
    assert.ok(await tab.getByText('This is number 240.').isVisible());
    assert.ok(await tab.locator('.words h3', { hasText: 'Two hotels' }).isVisible());
  },
});
