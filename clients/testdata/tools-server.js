/** One chat on a server whose model says what a test wrote, at once. It keeps the rules of calls: claims, one result each. */
const CLAIM = 60_000;

const event = (name, id, data) => `event: ${name}\ndata: ${JSON.stringify(data)}\nid: ${id}\n\n`;
const no = (status, code, details) => new Response(JSON.stringify({ code, message: `It is ${code}.`, details }), { status });
const streamOf = (text) => new Response(text, { headers: { 'Content-Type': 'text/event-stream' } });

export class Server {
  baseUrl = 'http://s';
  rows = [];
  asked = 0; // requests
  posts = []; // path and body of each
  claims = new Map();
  answers = new Map();
  /** Requests that are answered with a broken connection: before the server has done its part, or after. */
  deaf = 0;
  mute = 0;

  /** @param steps what the model says in each: `{text, calls}` */
  constructor(...steps) {
    this.steps = steps;
  }

  api(more) {
    return { baseUrl: this.baseUrl, accessToken: async () => 'token', fetch: (url, init) => this.fetch(url, init), ...more };
  }

  get reply() {
    return this.rows.findLast(({ role }) => role === 'assistant');
  }

  results() {
    return this.reply.parts.filter(({ type }) => type === 'tool_result').map(({ call_id, status, output }) => [call_id, status, output]);
  }

  async fetch(url, { method = 'GET', headers, body, signal } = {}) {
    this.asked++;
    await new Promise(setImmediate);
    if (signal?.aborted) throw signal.reason;
    if (this.deaf > 0 && method === 'POST') throw (this.deaf--, new TypeError('no network'));
    const request = url instanceof Request ? url : new Request(url, { method, headers, body });
    const answer = this.answer(request.method, new URL(request.url).pathname, body && JSON.parse(body), request.headers.get('Last-Event-ID'));
    if (this.mute > 0 && method === 'POST') throw (this.mute--, new TypeError('the connection broke'));
    return answer;
  }

  answer(method, path, body, cursor) {
    if (path.endsWith('/messages')) return Response.json({ messages: structuredClone(this.rows), has_more: false });
    if (path.endsWith('/stream')) return this.resume(cursor);
    this.posts.push([path, body]);
    if (path.startsWith('/v1/message/') || path === '/v1/message') return this.say(body);
    return this.settle(path.split('/').at(-1), body);
  }

  say({ content, client_message_id }) {
    const seen = this.rows.find((row) => row.client_message_id === client_message_id);
    if (seen) return streamOf(this.stream(0, 0));
    const { reply } = this;
    if (reply?.status === 'awaiting') this.skip(reply);
    const id = `m${this.rows.length}`;
    const row = { chat_id: 'c', parts: null, versions: 1, version: 1, files: [] };
    this.rows.push({ ...row, id, role: 'user', content, status: 'complete', client_message_id, seq: this.rows.length });
    this.rows.push({ ...row, id: `a${this.rows.length}`, role: 'assistant', content: '', status: 'awaiting', reply_to: id, seq: this.rows.length, parts: [] });
    this.goOn();
    return streamOf(this.stream(0, 0));
  }

  /** One step of the model. */
  goOn() {
    const { text = '', calls = [] } = this.steps.shift();
    const { reply } = this;
    reply.content += text;
    for (const call of calls) this.add({ type: 'tool_call', run: 'client', approval: false, arguments: {}, ...call });
    reply.status = calls.length > 0 ? 'awaiting' : 'complete';
  }

  add(part) {
    this.reply.parts.push({ at: [...this.reply.content].length, ...part });
  }

  skip(reply) {
    for (const { call_id } of this.open()) this.add({ type: 'tool_result', call_id, status: 'skipped', output: null });
    reply.status = 'cancelled';
  }

  open() {
    const settled = this.results().map(([id]) => id);
    return this.reply.parts.filter(({ type, call_id }) => type === 'tool_call' && !settled.includes(call_id));
  }

  settle(callId, { claim, ...answer }) {
    const call = this.reply.parts.find(({ type, call_id }) => type === 'tool_call' && call_id === callId);
    if (!call) return no(404, 'call_not_found');
    const before = this.answers.get(callId);
    if (before === JSON.stringify(answer)) return streamOf(this.from(callId));
    if (!this.open().includes(call)) return no(409, 'call_settled', { status: 'done' });
    const { by, until } = this.claims.get(callId) ?? {};
    if (by && by !== claim && until > Date.now()) return no(409, 'call_claimed');
    if (claim) this.claims.set(callId, { by: claim, until: Date.now() + CLAIM });
    if (Object.keys(answer).length === 0) return Response.json({ call_id: callId, claimed_until: new Date(Date.now() + CLAIM) });
    if (JSON.stringify(answer).length > 1 << 16) return no(422, 'validation_failed');
    if (('approved' in answer) !== call.approval || (answer.approved && answer.reason)) return no(422, 'validation_failed');
    this.answers.set(callId, JSON.stringify(answer));
    this.take(call, answer);
    if (this.open().length === 0) this.goOn();
    return streamOf(this.from(callId));
  }

  take({ call_id }, { output, error, approved, reason }) {
    if (approved !== undefined) this.add({ type: 'tool_approval', call_id, approved, reason });
    if (approved) this.add({ type: 'tool_result', call_id, status: 'done', output: 'ran' });
    else if (approved === false) this.add({ type: 'tool_result', call_id, status: 'denied', output: null });
    else this.add({ type: 'tool_result', call_id, status: error === undefined ? 'done' : 'failed', output: error === undefined ? output : { error } });
  }

  /** The stream from a call's answer on. */
  from(callId) {
    const k = this.reply.parts.findIndex(({ type, call_id }) => type !== 'tool_call' && call_id === callId);
    return this.stream(this.reply.parts[k].at, k);
  }

  resume(cursor) {
    const [id, place] = cursor.split(':');
    const row = this.rows.find((one) => one.id === id);
    const [n, k = 0] = place.split('.').map(Number);
    const isAll = n >= [...row.content].length && k >= row.parts.length;
    if (place === 'end' || (isAll && row.status === 'awaiting')) return new Response(null, { status: 204 });
    return streamOf(this.stream(n, k, row));
  }

  stream(n, k, row = this.reply) {
    const { id, chat_id, content, parts, status } = row;
    const place = (at, count) => `${id}:${at}${count ? `.${count}` : ''}`;
    const letters = [...content];
    let text = event('message.started', place(n, k), { message_id: id, chat_id, user_message_id: row.reply_to, offset: n, ...(k && { parts: k }) });
    const say = (to, count) => {
      if (to > n) text += event('content.delta', place(to, count), { delta: letters.slice(n, to).join('') });
      n = Math.max(n, to);
    };
    parts.slice(k).forEach((part, index) => {
      say(part.at, k + index);
      text += event('part.added', place(n, k + index + 1), { message_id: id, index: k + index, offset: n, part });
    });
    say(letters.length, parts.length);
    const ends = { awaiting: 'message.awaiting', complete: 'completion', cancelled: 'message.cancelled' };
    const last = { message_id: id, chat_id, content_length: n, expires_at: '2027-01-01T00:00:00Z' };
    return text + event(ends[status], status === 'awaiting' ? place(n, parts.length) : `${id}:end`, last);
  }
}
