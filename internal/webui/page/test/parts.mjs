/** How a reply with parts is read: cut at every event and resumed, it is shown the same. It needs no browser. */
import assert from 'node:assert/strict';
import { createServer } from 'vite';

const vite = await createServer({ server: { middlewareMode: true, ws: false, watch: null }, appType: 'custom', logLevel: 'error' });
const { take } = await vite.ssrLoadModule('@arcoscribe/throughline/turn');
const { watchedTurn } = await vite.ssrLoadModule('/src/throughline.ts');
const { lineOf, nameOf, outputOf, piecesOf, stateOf, textOf } = await vite.ssrLoadModule('/src/talk/calls.ts');

const reply = { chatId: 'c', messageId: 'm' };
const call = (at, call_id, more) => ({ type: 'tool_call', at, call_id, name: 'roll_dice', arguments: { sides: 6 }, run: 'server', approval: false, ...more });
const result = (at, call_id, output, more) => ({ type: 'tool_result', at, call_id, status: 'done', output, ...more });

/** Texts with characters of two units, and what stands between them. */
const said = [
  'Let me 🎲🎲 see.',
  { type: 'reasoning', at: 14, text: '**Dice** it is' },
  { type: 'reasoning', at: 14, text: 'and mail' },
  call(14, 'a'),
  call(14, 'b', { name: 'sendMail', approval: true }),
  result(14, 'a', 4),
  { type: 'tool_approval', at: 14, call_id: 'b', approved: false, reason: 'Too late 🌙' },
  result(14, 'b', null, { status: 'denied' }),
  '\n\n',
  'A 👩‍👩‍👧 four.',
  { type: 'source', at: 29, url: 'https://example.com', title: 'Dice' },
  { type: 'source', at: 29, url: 'javascript:1', title: '' },
];
const whole = said.filter((one) => typeof one === 'string').join('');
const parts = said.filter((one) => typeof one !== 'string');

/** The events that the server sends from a place on: it cuts the text as it likes. */
function eventsFrom(cursor) {
  const [from, sent = 0] = cursor.split(':')[1].split('.').map(Number);
  let [characters, count] = [0, 0];
  const event = (name, data) => ({ event: name, data: JSON.stringify(data), id: `m:${characters}${count ? `.${count}` : ''}` });
  const events = [];
  for (const one of said) {
    if (typeof one !== 'string') {
      count++;
      if (count > sent) events.push(event('part.added', { message_id: 'm', index: count - 1, offset: characters, part: one }));
      continue;
    }
    for (const delta of one) {
      characters++;
      if (characters > from) events.push(event('content.delta', { message_id: 'm', offset: characters - 1, delta }));
    }
  }
  events.push({ ...event('completion', { message_id: 'm', chat_id: 'c' }), id: 'm:end' });
  [characters, count] = [from, sent];
  return [event('message.started', { message_id: 'm', chat_id: 'c', offset: from, ...(sent && { parts: sent }) }), ...events];
}

function read(turn, events) {
  for (const one of events) assert.ok(take(turn, one), `${one.id} ${one.event} is refused`);
  return turn;
}

const shown = piecesOf(whole, parts);
assert.deepEqual(shown.map(({ kind }) => kind), ['text', 'thought', 'call', 'call', 'text', 'sources']);
assert.deepEqual([shown[0].text, shown[4].text, shown[1].text], [said[0], '\n\nA 👩‍👩‍👧 four.', '**Dice** it is\n\nand mail']);
assert.deepEqual(shown.slice(2, 4).map(({ call: one }) => [stateOf(one, 'streaming'), nameOf(one.part)]), [['done', 'Roll dice'], ['denied', 'Send mail']]);
assert.equal(shown[3].call.approval.reason, 'Too late 🌙');

const all = eventsFrom('m:0');
for (let cut = 1; cut < all.length; cut++) {
  const turn = read(watchedTurn(reply), all.slice(0, cut));
  const kept = JSON.parse(JSON.stringify(turn)); // as over a reload
  read(kept, eventsFrom(kept.cursor));
  assert.deepEqual(piecesOf(kept.text, kept.parts), shown, `cut after ${all[cut - 1].id}`);
  assert.equal(kept.status, 'complete');
}

const waiting = { part: call(0, 'x', { approval: true }) };
const states = (one) => ['streaming', 'awaiting', 'over'].map((state) => stateOf(one, state));
assert.deepEqual(states(waiting), ['approval', 'approval', 'unanswered']);
assert.deepEqual(states({ part: call(0, 'x', { run: 'client' }) }), ['app', 'app', 'unanswered']);
assert.deepEqual(states({ ...waiting, approval: { type: 'tool_approval', at: 0, call_id: 'x', approved: true } }), ['running', 'running', 'broken']);

assert.equal(lineOf({ sides: 6, note: 'b', list: [1] }), 'sides: 6 · note: b · list: [1]');
assert.deepEqual([lineOf({}), lineOf(null), lineOf('{broken'), lineOf([1, 'a'])], ['', '', '{broken', '[1,"a"]']);
assert.equal(outputOf(result(0, 'x', { error: 'No taxi.', status: 404 }, { status: 'failed' })), 'No taxi.');
assert.deepEqual(outputOf(result(0, 'x', { error: 'a value' })), { error: 'a value' });
assert.equal(textOf({ a: [1] }, 1), '{\n "a": [\n  1\n ]\n}');
assert.equal(textOf({ to: '\u202Eada' }), '{"to":"\\u202eada"}');
await vite.close();
