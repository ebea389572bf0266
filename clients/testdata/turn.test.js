/** The rules of a turn, without a server. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { isOver, newTurn, nextRequest, pause, refused, take, tryAgain, watchedTurn } from '../dist/esm/turn.js';

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
