/** What a person sees of what a chat remembers. The chat is that of remembers_test.go. */
import { assert, call, desktop, eventually, fits, isAccessible, newBrowser, open, phone, picture, run } from './harness.mjs';

const { CHAT, LATE } = process.env;
const path = `/app/chats/${CHAT}/memory`;
const context = await newBrowser({ viewport: phone });
let tab;

const strip = (at) => at.getByRole('slider', { name: /^Turn/ });
const version = (at, n) => at.getByRole('radio', { name: new RegExp(`^Version ${n},`) });
const panel = (tab) => tab.getByRole('complementary', { name: 'Why it said that' });
const section = (at, name) => at.getByRole('region', { name });
const legend = (at, place) => at.locator('.strip ~ .legend li').filter({ has: at.locator('b', { hasText: new RegExp(`^${place}$`) }) });
const says = (slider) => slider.getAttribute('aria-valuetext');
const remembered = (query = '') => call('GET', `/v1/chats/${CHAT}/memory${query}`);

/** How many turns the legend counts in a place. */
async function counted(at, place) {
  const item = legend(at, place);
  if ((await item.count()) === 0) return 0;
  return Number((await item.textContent()).match(/: (\d+) /)[1]);
}

/** The legend agrees with what the server says of the next prompt. */
async function agrees(at, memory) {
  const { receipt, context } = memory;
  await eventually(async () => assert.equal(await counted(at, 'Tail'), receipt.tail_turns, 'tail'));
  await eventually(async () => assert.equal(await counted(at, 'Bridge'), receipt.bridge_turns, 'bridge'));
  await eventually(async () => assert.equal(await counted(at, 'Not shown'), receipt.dropped_turns, 'dropped'));
  await eventually(async () => assert.equal(await counted(at, 'Recalled'), receipt.recalled?.length ?? 0, 'recalled'));
  const covered = (await counted(at, 'Brief')) + (await counted(at, 'Kept')) + (await counted(at, 'Recalled'));
  assert.equal(covered, context.turns - receipt.tail_turns - receipt.bridge_turns, 'brief');
}

async function moveTo(slider, value) {
  await slider.fill(String(value));
}

await run({
  async 'every turn is where the server says it is'() {
    const { messages } = await call('GET', `/v1/chats/${CHAT}/messages?limit=5`);
    await call('PATCH', `/v1/messages/${messages[2].id}`, { importance: 0.1 }); // not important: kept by nothing
    const first = (await call('GET', `/v1/chats/${CHAT}/messages?after_seq=2&limit=1`)).messages[0];
    await call('PATCH', `/v1/messages/${first.id}`, { pinned: true });
    tab = await open(context, path);
    await tab.getByRole('heading', { name: 'What it remembers' }).waitFor();
    const memory = await remembered();
    await tab.getByText(memory.coverage).first().waitFor();
    await agrees(tab, memory);
    await eventually(async () => assert.equal(await counted(tab, 'Kept'), 1));
    await picture(tab, 'remembers-phone-light');
    await isAccessible(tab, 'the strip');
  },

  async 'arrow keys move through the turns, Enter opens one'() {
    const slider = strip(tab);
    await slider.focus();
    await tab.keyboard.press('Home');
    await eventually(async () => assert.match(await says(slider), /^Turn 1 of 24, Brief: summarized in the brief\. Hello\. I am learning the cello/));
    await tab.keyboard.press('ArrowRight');
    await eventually(async () => assert.match(await says(slider), /^Turn 2 of 24, Kept: .*\. A few facts/));
    const text = tab.getByText('the only neighbour is a beekeeper', { exact: false }).locator('visible=true');
    await tab.keyboard.press('Enter');
    await text.first().waitFor();
    await tab.keyboard.press('Enter');
    await tab.locator('.turn-card details:not([open])').waitFor();
    await tab.keyboard.press('End');
    await eventually(async () => assert.match(await says(slider), /^Turn 24 of 24, Tail: /));
  },

  async 'a finger picks a turn, and a second tap opens it'() {
    const box = await tab.locator('.strip svg').boundingBox();
    await tab.mouse.click(box.x + 5, box.y + 10);
    await tab.getByRole('article', { name: 'Turn 1', exact: true }).waitFor();
    await eventually(async () => assert.match(await says(strip(tab)), /^Turn 1 of 24/));
    await tab.mouse.click(box.x + 5, box.y + 10);
    await tab.locator('.turn-card details[open]').waitFor();
  },

  async 'what would be recalled for a question is seen before it is asked'() {
    const question = 'Who rents me the cello, and what does it cost?';
    const before = (await call('GET', `/v1/chats/${CHAT}/messages`)).messages.at(-1).seq;
    await tab.getByLabel('What if I asked').fill(question);
    await tab.getByRole('button', { name: 'Look', exact: true }).click();
    await legend(tab, 'Recalled').waitFor();
    const memory = await remembered(`?content=${encodeURIComponent(question)}`);
    assert.ok(memory.receipt.recalled.length > 0);
    await agrees(tab, memory);
    await tab.locator('details[open] pre', { hasText: 'RELEVANT EARLIER TURNS' }).waitFor();
    await tab.locator('details[open] pre', { hasText: 'Rents a cello from Kessler.' }).waitFor();
    await moveTo(strip(tab), 2);
    await eventually(async () => assert.match(await says(strip(tab)), /^Turn 3 of 24, Recalled: quoted.*rented from a violin maker/));
    await isAccessible(tab, 'what would be recalled');
    const after = (await call('GET', `/v1/chats/${CHAT}/messages`)).messages.at(-1).seq;
    assert.equal(after, before, 'asking what would be recalled stores nothing');
    await tab.getByRole('button', { name: 'Look again' }).click();
    await legend(tab, 'Recalled').waitFor({ state: 'detached' });
  },

  async 'the brief is read version by version, with what changed'() {
    const { revisions } = await call('GET', `/v1/chats/${CHAT}/memory/revisions`);
    assert.ok(revisions.length > 2, `${revisions.length} versions`);
    const brief = section(tab, 'The brief over time');
    const without = async (mark) => (await brief.locator(`.brief > :not(.${mark}) > [dir]`).allTextContents()).join(' ');
    const flat = (text) => text.replace(/\s+/g, ' ');
    /** The text of a version, with what it added and removed: without either it is the text after or before. */
    const shows = async (at) => {
      const [now, before] = [revisions.at(at).global_summary, revisions.at(at - 1).global_summary];
      await eventually(async () => assert.equal(await without('del'), flat(now)));
      await eventually(async () => assert.equal(await without('ins'), flat(before)));
    };
    revisions.reverse();
    const changed = revisions.findIndex((one, at) => at > 0 && one.global_summary !== revisions[at - 1].global_summary);
    assert.ok(changed > 0, 'no version changed anything');
    await shows(-1);
    await version(tab, revisions.at(-1).version).focus();
    for (const [key, n] of [['ArrowLeft', revisions.length - 1], ['ArrowRight', revisions.length], ['ArrowRight', 1]]) {
      await tab.keyboard.press(key); // around the end
      await brief.getByText(`Version ${revisions[n - 1].version} of`).waitFor();
      await eventually(async () => assert.ok(await version(tab, revisions[n - 1].version).isChecked()));
    }
    await eventually(async () => assert.equal(await without('del'), flat(revisions[0].global_summary)));
    await eventually(async () => assert.equal(await brief.locator('ins, del').count(), 0, 'the first version has nothing before it'));
    await version(tab, revisions[changed].version).check();
    await shows(changed);
    await eventually(async () => assert.ok((await brief.locator('ins, del').count()) > 0, 'nothing is marked'));
    await brief.locator('h2').evaluate((heading) => heading.scrollIntoView());
    await picture(tab, 'remembers-brief-phone');
    await brief.getByLabel('Mark what changed').uncheck();
    await eventually(async () => assert.equal(await brief.locator('ins, del').count(), 0));
    await brief.getByRole('link').first().click();
    await tab.waitForURL(new RegExp(`turn=${revisions[changed].seq_from}$`));
    await tab.locator('.turn-card details[open]').waitFor();
    await tab.locator(`.strip input[aria-valuetext^="Turn ${(revisions[changed].seq_from + 1) / 2} of 24"]`).waitFor();
  },

  async 'tokens per turn are a chart, and a table for who cannot see it'() {
    const tokens = section(tab, 'Tokens per turn');
    await eventually(async () => assert.equal(await tokens.locator('canvas').count(), 1));
    await tokens.getByText('The same as a table').click();
    await tokens.locator('tbody tr').nth(23).waitFor();
    const rows = await tokens.locator('tbody tr').allTextContents();
    assert.equal(rows.length, 24);
    await tokens.locator('h2').evaluate((heading) => heading.scrollIntoView());
    await picture(tab, 'remembers-tokens-phone');
    const cells = (await tokens.locator('tbody tr').last().locator('td').allTextContents()).map((cell) => Number(cell.replace(/\D/g, '')));
    assert.ok(cells[0] > 2 * cells[1] && cells[1] > 0, `the whole has ${cells[0]} tokens, the memory ${cells[1]}`);
    await isAccessible(tab, 'everything open');
  },

  async 'a reply says why it said that, with ways to the turns and memories'() {
    await call('POST', '/v1/message', { chat_id: CHAT, content: 'Who rents me the cello, and what does it cost?' });
    await tab.goto(new URL(`/app/chats/${CHAT}`, tab.url()).href);
    const chip = tab.getByRole('button', { name: /^Why\? \d+ (memory|memories) · \d+ quotes?$/ }).last();
    await tab.getByRole('button', { name: 'Try again', exact: true }).last().click();
    await tab.getByRole('group', { name: 'Version 2 of 2' }).waitFor();
    await chip.waitFor();
    await fits(tab);
    await chip.click();
    const why = panel(tab);
    await why.getByText('Earlier turns, quoted').waitFor();
    await tab.locator('.message.explained').getByText('Kessler').first().waitFor();
    await tab.keyboard.press('Escape');
    await why.waitFor({ state: 'detached' });
    await eventually(async () => assert.ok(await chip.evaluate((one) => one === document.activeElement), 'the keyboard is at the chip again'));
    await chip.click();
    await why.getByText('rented from a violin maker called Kessler').first().waitFor();
    const memory = why.getByRole('link', { name: 'Rents a cello from Kessler.' });
    await eventually(async () => assert.match(await memory.getAttribute('href'), /^\/app\/memories\?id=[0-9a-f-]{36}$/));
    const desktopDark = await newBrowser({ viewport: desktop, colorScheme: 'dark' });
    const dark = await open(desktopDark, `/app/chats/${CHAT}?why=${await chip.getAttribute('data-why')}`);
    await panel(dark).getByText('Earlier turns, quoted').waitFor();
    await picture(dark, 'remembers-desktop-dark');
    await isAccessible(dark, 'why, in the dark');
    await desktopDark.close();
    await isAccessible(tab, 'why');
    await why.locator('.why blockquote').first().getByRole('link').click();
    await tab.locator('.turn-card details[open]').waitFor();
    await eventually(async () => assert.match(await says(strip(tab)), /^Turn 3 of 25/));
    await eventually(async () => assert.equal(await tab.evaluate(() => document.activeElement.className), 'turn-card', 'the keyboard is at the turn'));
  },

  async 'a reply says as well what it had to do without'() {
    for (const [id, words] of [[CHAT, 'There is no such message.'], [LATE, 'Looking this up came too late, so the reply went without it.']]) {
      await tab.goto(new URL(`/app/chats/${CHAT}?why=${id}`, tab.url()).href);
      await panel(tab).getByText(words).waitFor();
    }
  },

  async 'a deleted text is gone from every version'() {
    const first = (await call('GET', `/v1/chats/${CHAT}/messages?after_seq=0&limit=1`)).messages[0];
    await call('DELETE', `/v1/messages/${first.id}`);
    await tab.goto(new URL(path, tab.url()).href);
    const brief = section(tab, 'The brief over time');
    const { revisions } = await call('GET', `/v1/chats/${CHAT}/memory/revisions`);
    assert.ok(revisions.some(({ kind }) => kind === 'rollback'));
    await tab.getByRole('button', { name: 'Look again' }).click();
    await version(tab, revisions.at(-1).version).check();
    await brief.getByText('taken back by version').waitFor();
    await brief.locator('s', { hasText: 'added' }).waitFor();
    await brief.getByText('The text of this version is deleted').waitFor();
    await isAccessible(tab, 'a version that was taken back');
    await version(tab, revisions.find(({ kind }) => kind === 'rollback').version).check();
    await brief.getByText('taken back after a message changed').waitFor();
  },

  async 'cleared turns are told from dropped ones'() {
    await call('POST', `/v1/chats/${CHAT}/clear`);
    await tab.getByRole('button', { name: 'Look again' }).click();
    await legend(tab, 'Left behind').waitFor();
    await eventually(async () => assert.equal(await counted(tab, 'Not shown'), 0));
    await moveTo(strip(tab), 0);
    await eventually(async () => assert.match(await says(strip(tab)), /^Turn 1 of 2\d, Left behind: from before the context was cleared/));
    await section(tab, 'The brief over time').getByRole('radio').last().check();
    await section(tab, 'The brief over time').getByText('emptied by a clear').waitFor();
    await tab.getByRole('link', { name: 'Show it in the chat' }).click();
    await tab.locator('.message').filter({ hasText: 'Rosa Lindqvist' }).first().waitFor();
    await tab.goBack();
    await strip(tab).waitFor(); // what follows takes the server away, so it has to have answered
  },

  async 'a server that does not answer is said, and asked again'() {
    await tab.route('**/memory', (route) => (route.request().resourceType() === 'fetch' ? route.abort() : route.continue()));
    await tab.getByRole('button', { name: 'Look again' }).click();
    await tab.getByRole('alert').getByText('The server cannot be reached').waitFor();
    await tab.unroute('**/memory');
    await tab.getByRole('button', { name: 'Try again' }).click();
    await tab.getByRole('alert').waitFor({ state: 'detached' });
    await tab.goto(new URL('/app/chats/0197a1b2-0000-7000-8000-000000000000/memory', tab.url()).href);
    await tab.getByRole('alert').getByText('There is no such chat').waitFor();
    await tab.close();
  },

  async 'messages of tools, notes and a greeting are grouped as the server groups them'() {
    const { id } = await call('POST', '/v1/chats', { title: 'Odd ones' });
    const calls = [{ id: 'call_1', type: 'function', function: { name: 'tuner', arguments: '{}' } }];
    await call('POST', `/v1/chats/${id}/messages`, {
      messages: [
        { role: 'system', content: 'A note before anything was said.' }, { role: 'assistant', content: 'Hello!' },
        { role: 'user', content: 'Tune the A.' },
        { role: 'assistant', tool_calls: calls },
        { role: 'tool', name: 'tuner', tool_call_id: 'call_1', content: '441 Hz' },
        { role: 'assistant', content: 'It is sharp.' },
        { role: 'user', content: 'And the D?' },
        { role: 'user', content: 'Are you there?' },
        { role: 'system', content: 'A note.' },
      ],
    });
    const odd = await open(context, `/app/chats/${id}/memory`);
    const { seqs } = (await call('GET', `/v1/chats/${id}/memory`)).sections.find((section) => section.name === 'recent');
    assert.deepEqual(seqs, [1, 3, 7, 8]);
    await odd.getByText('Turn 4 of 4').waitFor();
    for (const [n, beginning] of ['A note before', 'Tune the A', 'And the D', 'Are you there'].entries()) {
      await moveTo(strip(odd), n);
      await eventually(async () => assert.match(await says(strip(odd)), new RegExp(`^Turn ${n + 1} of 4, .*word for word.*${beginning}`)));
    }
    const { messages } = await call('GET', `/v1/chats/${id}/messages`);
    await section(odd, 'Tokens per turn').getByText('nothing is known of their prompts').waitFor();
    await odd.goto(new URL(`/app/chats/${id}?why=${messages.at(-4).id}`, odd.url()).href);
    await panel(odd).getByText('was not made here').waitFor();
    await odd.close();
  },

  async 'two thousand turns are one strip'() {
    const turns = 2000;
    const { id } = await call('POST', '/v1/chats', { title: 'A long one', memory_strategy: 'simple' });
    for (let n = 0; n < turns; n += 50) {
      const messages = Array.from({ length: 50 }, (_, i) => [
        { role: 'user', content: `Question ${n + i + 1} <img src=x onerror="hurt = 1">` },
        { role: 'assistant', content: `Answer ${n + i + 1}` },
      ]).flat();
      await call('POST', `/v1/chats/${id}/messages`, { messages });
    }
    const long = await open(context, `/app/chats/${id}/memory`);
    const began = Date.now();
    await long.getByText(`Turn ${turns} of ${turns}`).waitFor();
    console.log(`2000 turns are shown after ${Date.now() - began} ms`);
    await eventually(async () => assert.equal(await counted(long, 'Not shown') + await counted(long, 'Tail') + await counted(long, 'Bridge'), turns));
    const { elements, moved } = await long.evaluate(async () => {
      const slider = document.querySelector('.strip input');
      const began = performance.now();
      for (let n = 0; n < 100; n++) {
        slider.value = String(n * 10);
        slider.dispatchEvent(new Event('input', { bubbles: true }));
        await new Promise((resolve) => requestAnimationFrame(resolve));
      }
      return { elements: document.querySelectorAll('*').length, moved: performance.now() - began };
    });
    console.log(`100 moves take ${Math.round(moved)} ms, ${elements} elements`);
    assert.ok(elements < 1000, `${elements} elements`);
    await eventually(async () => assert.match(await says(strip(long)), /^Turn 991 of 2000, Not shown: .*Question 991/));
    await eventually(async () => assert.equal(await long.evaluate(() => globalThis.hurt), undefined));
    await picture(long, 'remembers-long-phone');
    await isAccessible(long, 'two thousand turns');
    await long.close();
  },
});
