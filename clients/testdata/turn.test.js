/** The rules of a turn, without a server. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { answerTurn, isOver, newTurn, nextRequest, pause, refused, take, takeStored, tryAgain, watchedTurn } from '../dist/esm/turn.js';

const FAMILY = '👨‍👩‍👧'; // five code points

const started = (messageId, offset) => ({
  event: 'message.started',
  id: `${messageId}:${offset}`,
  data: JSON.stringify({ chat_id: 'c', message_id: messageId, offset }),
});
const delta = (messageId, place, text) => ({
  event: 'content.delta',
  id: `${messageId}:${place}`,
  data: JSON.stringify({ delta: text }),
});
const taken = (...events) => {
  const turn = newTurn({ clientMessageId: 'm', content: 'Hello' });
  for (const event of events) take(turn, event);
  return turn;
};

test('a message is posted until its first event came, then the rest is asked for', () => {
  const turn = newTurn({ clientMessageId: 'm', content: 'Hello' });
  const first = nextRequest(turn, 'http://s');
  assert.deepEqual([first.method, first.url], ['POST', 'http://s/v1/message/first']);
  assert.deepEqual(JSON.parse(first.body), { content: 'Hello', client_message_id: 'm' });
  take(turn, started('a', 0));
  assert.equal(turn.cursor, 'a:0');
  take(turn, delta('a', 2, 'Hi'));
  assert.equal(turn.cursor, 'a:2');
  assert.deepEqual(nextRequest(turn, 'http://s'), { method: 'GET', url: 'http://s/v1/message/c/stream' });
});

test('a message to a chat names it', () => {
  const request = nextRequest(newTurn({ clientMessageId: 'm', content: 'Hello', chatId: 'c' }), 'http://s');
  assert.equal(request.url, 'http://s/v1/message');
  assert.equal(JSON.parse(request.body).chat_id, 'c');
});

test('a stream that begins within the known text says the rest of it again', () => {
  const turn = taken(started('a', 0), delta('a', 7, `${FAMILY}yz`), started('a', 6), delta('a', 8, 'zß'));
  assert.equal(turn.text, `${FAMILY}yzß`);
});

test('a stream of another reply begins anew', () => {
  assert.equal(taken(started('a', 0), delta('a', 3, 'old'), started('b', 0), delta('b', 3, 'new')).text, 'new');
});

test('events of other kinds change nothing', () => {
  const turn = taken(started('a', 0), { event: 'message.seen', id: 'a:9', data: 'no JSON' });
  assert.equal(turn.cursor, 'a:0');
});

test('each terminal event ends a turn', () => {
  const ends = { completion: 'complete', 'message.cancelled': 'cancelled', 'message.failed': 'failed' };
  for (const [event, status] of Object.entries(ends)) {
    const turn = taken(started('a', 0), { event, id: 'a:end', data: '{"code":"interrupted","retryable":true}' });
    assert.deepEqual([turn.status, turn.cursor, isOver(turn)], [status, 'a:end', true]);
  }
});

test('a failed turn is tried again under its name, from the beginning', () => {
  const turn = taken(started('a', 0), delta('a', 2, 'Hi'), { event: 'message.failed', id: 'a:end', data: '{}' });
  tryAgain(turn);
  assert.deepEqual([turn.text, turn.status, turn.failure], ['', 'waiting', undefined]);
  const { method, body } = nextRequest(turn, '');
  assert.equal(method, 'POST');
  assert.equal(JSON.parse(body).client_message_id, 'm');
});

const call = (id, at) => ({ type: 'tool_call', at, call_id: id, name: 'get_date', arguments: {}, run: 'client', approval: false });
const result = (id, at) => ({ type: 'tool_result', at, call_id: id, status: 'done', output: 'today' });
const added = (place, index, part) => ({ event: 'part.added', id: `a:${place}`, data: JSON.stringify({ message_id: 'a', index, offset: part.at, part }) });
const begins = (offset, parts) => ({ ...started('a', offset), data: JSON.stringify({ chat_id: 'c', message_id: 'a', offset, parts }) });
/** A reply of two steps, with all its parts. */
const PARTS = [
  { type: 'reasoning', at: 6, text: 'Hm.' }, call('x', 6), call('y', 6), result('y', 6), result('x', 6),
  { type: 'source', at: 8, url: 'https://a.test' },
];
const WITH_PARTS = [
  delta('a', 5, FAMILY), delta('a', 6, 'ß'), added('6.1', 0, PARTS[0]), added('6.2', 1, PARTS[1]), added('6.3', 2, PARTS[2]),
  added('6.4', 3, PARTS[3]), added('6.5', 4, PARTS[4]), delta('a', '7.5', 'y'), delta('a', '8.5', 'z'), added('8.6', 5, PARTS[5]),
  { event: 'completion', id: 'a:end', data: '{}' },
];

test('a reply with parts that is cut at every event is the same, resumed by its place or by that of its text', () => {
  for (let cut = 0; cut <= WITH_PARTS.length; cut++) {
    const seen = [begins(0), ...WITH_PARTS.slice(0, cut)];
    const [n, k = 0] = (seen.at(-1).id.split(':')[1] === 'end' ? '8.6' : seen.at(-1).id.split(':')[1]).split('.').map(Number);
    const after = (place) => WITH_PARTS.filter(({ id }) => place(...id.split(':')[1].split('.').map(Number)));
    const rest = after((to, count = 0) => Number.isNaN(to) || to > n || count > k);
    const byText = PARTS.filter(({ at }) => at < n).length;
    const again = after((to, count = 0) => Number.isNaN(to) || to > n || count > byText);
    for (const turn of [taken(...seen, begins(n, k || undefined), ...rest), taken(...seen, begins(n, byText || undefined), ...again)]) {
      assert.deepEqual([turn.text, turn.parts, turn.status, turn.cursor], [`${FAMILY}ßyz`, PARTS, 'complete', 'a:end'], `cut after ${cut}`);
    }
  }
});

test('a reply that waits for answers ends its stream, and its cursor is a place', () => {
  const awaiting = { event: 'message.awaiting', id: 'a:6.3', data: '{"open":[],"expires_at":"2027-01-01T00:00:00Z"}' };
  const turn = taken(begins(0), ...WITH_PARTS.slice(0, 5), awaiting);
  assert.deepEqual([turn.status, turn.cursor, turn.expiresAt, isOver(turn)], ['awaiting', 'a:6.3', '2027-01-01T00:00:00Z', true]);
  const known = watchedTurn({ chatId: 'c', messageId: 'a', text: turn.text, parts: turn.parts });
  assert.equal(known.cursor, 'a:6.3');
  takeStored(known, { id: 'a', content: turn.text, parts: turn.parts, status: 'awaiting' });
  assert.deepEqual([known.status, known.cursor], ['awaiting', 'a:6.3']);
});

test('an answer to a call is posted, and what others answered meanwhile is asked for', () => {
  const known = { chatId: 'c', messageId: 'a', text: `${FAMILY}ß`, parts: PARTS.slice(0, 3) };
  const turn = answerTurn(known, 'x', { output: 'today', claim: 'd' });
  const { method, url, body } = nextRequest(turn, 'http://s');
  assert.deepEqual([method, url, body], ['POST', 'http://s/v1/messages/a/calls/x', '{"output":"today","claim":"d"}']);
  assert.equal(take(turn, begins(6, 4)), false);
  assert.deepEqual([turn.cursor, turn.parts.length, nextRequest(turn, '').method], ['a:6.3', 3, 'GET']);
  for (const event of [begins(6, 3), ...WITH_PARTS.slice(5)]) assert.ok(take(turn, event));
  assert.deepEqual([turn.text, turn.parts], [`${FAMILY}ßyz`, PARTS]);
});

test('an answer that is refused leaves the reply as it is, and one whose reply failed is given again', () => {
  const answers = [
    [409, 'call_settled', 'over', 'awaiting'], [409, 'message_superseded', 'over', 'awaiting'], [404, 'call_not_found', 'over', 'awaiting'],
    [422, 'validation_failed', 'over', 'awaiting'], [409, 'call_claimed', 'later', 'waiting'], [502, 'upstream_failed', 'over', 'failed'],
  ];
  for (const [status, code, next, how] of answers) {
    const turn = answerTurn({ chatId: 'c', messageId: 'a', text: 'ß', parts: [call('x', 1)] }, 'x', { approved: true });
    assert.equal(refused(turn, { status, body: JSON.stringify({ code }), renewed: false }), next, code);
    assert.deepEqual([turn.status, turn.failure?.code], [how, next === 'over' ? code : undefined]);
    tryAgain(turn);
    assert.deepEqual([turn.messageId, turn.text, turn.parts.length, nextRequest(turn, '').method], ['a', 'ß', 1, 'POST']);
  }
});

test('a device that only watches asks from the beginning', () => {
  const turn = watchedTurn({ chatId: 'c', messageId: 'a' });
  assert.equal(turn.cursor, 'a:0');
  assert.equal(nextRequest(turn, '').method, 'GET');
});

test('an answer that is no stream decides what comes next', () => {
  const answers = [
    [401, '{"code":"session_expired"}', 'renew'],
    [409, '{"code":"generation_in_progress"}', 'later'],
    [409, '{"code":"conversation_changed"}', 'over', false],
    [429, '{"code":"over_request_rate_limit"}', 'later'],
    [429, '{"code":"quota_exceeded"}', 'over', true],
    [503, '{"code":"shutting_down"}', 'later'],
    [503, '<html>', 'later'],
    [502, '<html>', 'later'],
    [204, '', 'later'],
    [304, '', 'later'],
    [502, '{"code":"upstream_failed"}', 'over', true],
    [503, '{"code":"upstream_overloaded"}', 'over', true],
    [500, '{"code":"internal"}', 'over', true],
    [422, '{"code":"idempotency_mismatch"}', 'over', false],
    [404, '<html>', 'over', false],
  ];
  for (const [status, body, next, retryable] of answers) {
    const turn = newTurn({ clientMessageId: 'm', content: 'Hello' });
    assert.equal(refused(turn, { status, body, renewed: false }), next, `${status} ${body}`);
    assert.deepEqual([isOver(turn), turn.failure?.retryable], [next === 'over', retryable], `${status} ${body}`);
  }
});

test('a turn that replaces others waits for no reply that runs', () => {
  for (const code of ['generation_in_progress', 'conversation_changed', 'message_superseded']) {
    const turn = newTurn({ clientMessageId: 'm', chatId: 'c', options: { replaces: 'a', last_message_id: 'b' } });
    assert.deepEqual(JSON.parse(nextRequest(turn, '').body), { replaces: 'a', last_message_id: 'b', client_message_id: 'm', chat_id: 'c' });
    assert.equal(refused(turn, { status: 409, body: JSON.stringify({ code, details: { message_id: 'b' } }), renewed: false }), 'over');
    assert.deepEqual([turn.failure.status, turn.failure.code, turn.failure.retryable, turn.messageId], [409, code, false, undefined]);
  }
});

test('a model that failed has left messages behind', () => {
  const turn = newTurn({ clientMessageId: 'm', content: 'Hello' });
  const details = { chat_id: 'c', user_message_id: 'u', message_id: 'a' };
  refused(turn, { status: 502, body: JSON.stringify({ code: 'upstream_failed', details }), renewed: false });
  assert.deepEqual([turn.chatId, turn.userMessageId, turn.messageId, turn.cursor], ['c', 'u', 'a', undefined]);
});

test('a token that was renewed in vain ends the turn until the user signs in', () => {
  const turn = newTurn({ clientMessageId: 'm', content: 'Hello' });
  assert.equal(refused(turn, { status: 401, body: '{"code":"bad_jwt"}', renewed: true }), 'over');
  assert.deepEqual([turn.failure.code, turn.failure.retryable], ['bad_jwt', true]);
});

test('a request that came to a wrong cell is sent again once', () => {
  const turn = newTurn({ clientMessageId: 'm', content: 'Hello' });
  const body = '{"code":"wrong_cell","details":{"cell":"c"}}';
  assert.equal(refused(turn, { status: 421, body, renewed: false }), 'later');
  assert.equal(refused(turn, { status: 421, body, renewed: false, astray: true }), 'over');
  assert.deepEqual([turn.failure.code, turn.failure.retryable], ['wrong_cell', true]);
});

test('pauses grow, are spread from nothing to their bound, and are never shorter than asked', () => {
  const spread = (attempt, asked, low, high) => {
    const pauses = Array.from({ length: 500 }, () => pause(attempt, asked)).sort((a, b) => a - b);
    const [least, most, tenth] = [pauses[0], pauses.at(-1), (high - low) / 10];
    assert.ok(least >= low && least < low + tenth && most > high - tenth && most <= high, `${least} to ${most}, not ${low} to ${high}`);
  };
  spread(0, undefined, 0, 250);
  spread(3, null, 0, 2000);
  spread(5000, '', 0, 10_000);
  spread(0, '2', 2000, 2250);
  spread(0, 2, 2000, 2250);
  spread(0, 'Fri, 01 Jan 2027 00:00:00 GMT', 0, 250);
  spread(0, '-7', 0, 250);
  for (const asked of ['Infinity', '31536000', Number.MAX_VALUE]) spread(0, asked, 300_000, 300_250);
});
