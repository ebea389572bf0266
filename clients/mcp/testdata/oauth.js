/**
 * What an assistant does with an address and nothing else: it finds out where its user signs in, registers itself, asks
 * for consent, and goes on when its token ends. The user is played by fetch, with a session of the user's own.
 */
import assert from 'node:assert/strict';

import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const { BASE_URL, SUPABASE_URL, ANN, BEN, EXPIRED, MARK } = process.env;
const MCP = new URL('/mcp', BASE_URL);
const CALLBACK = 'http://localhost:33418/callback';

/** What an assistant remembers of one connection. */
class Assistant {
  redirectUrl = CALLBACK;

  clientMetadata = {
    client_name: 'Assistant', redirect_uris: [CALLBACK],
    token_endpoint_auth_method: 'none', grant_types: ['authorization_code', 'refresh_token'],
  };

  state() { return 'a state'; }

  clientInformation() { return this.client; }

  saveClientInformation(client) { this.client = client; }

  tokens() { return this.held; }

  saveTokens(tokens) { this.held = tokens; }

  redirectToAuthorization(url) { this.asked = url; }

  saveCodeVerifier(verifier) { this.verifier = verifier; }

  codeVerifier() { return this.verifier; }

  invalidateCredentials(scope) { if (scope === 'all' || scope === 'tokens') this.held = undefined; }

  transport() { return new StreamableHTTPClientTransport(MCP, { authProvider: this }); }

  /** Connects without a token, which must lead to the user. */
  async askUser() {
    const transport = this.transport();
    await assert.rejects(new Client({ name: 'assistant', version: '1.0.0' }).connect(transport), UnauthorizedError);
    return transport;
  }

  async connect() {
    const client = new Client({ name: 'assistant', version: '1.0.0' });
    await client.connect(this.transport());
    return client;
  }
}

const auth = async (session, path, options = {}) => {
  const response = await fetch(`${SUPABASE_URL}/auth/v1${path}`, {
    ...options, headers: { Authorization: `Bearer ${session}`, 'Content-Type': 'application/json' },
  });
  const text = await response.text();
  return { status: response.status, body: text ? JSON.parse(text) : undefined };
};

/** The user follows the assistant's link to the consent page, reads who asks for what, and decides. */
async function decide(assistant, session, action) {
  const asked = Object.fromEntries(assistant.asked.searchParams);
  assert.equal(asked.resource, MCP.href);
  assert.equal(asked.scope, 'email');
  assert.equal(asked.code_challenge_method, 'S256');
  const sent = await fetch(assistant.asked, { redirect: 'manual' });
  const page = new URL(sent.headers.get('Location'));
  assert.equal(page.origin + page.pathname, `${BASE_URL}/app/oauth/consent`);
  const path = `/oauth/authorizations/${page.searchParams.get('authorization_id')}`;
  const { body: details } = await auth(session, path);
  if (details.redirect_url) return new URL(details.redirect_url); // consent was given before
  assert.equal(details.client.name, 'Assistant');
  assert.equal(details.redirect_uri, CALLBACK);
  const { body } = await auth(session, `${path}/consent`, { method: 'POST', body: JSON.stringify({ action }) });
  return new URL(body.redirect_url);
}

async function signIn(session) {
  const assistant = new Assistant();
  const transport = await assistant.askUser();
  const back = await decide(assistant, session, 'approve');
  assert.equal(back.searchParams.get('state'), 'a state');
  await transport.finishAuth(back.searchParams.get('code'));
  return assistant;
}

const claims = (token) => JSON.parse(Buffer.from(token.split('.')[1], 'base64url'));
const threads = async (client) => (await client.callTool({ name: 'list_threads', arguments: {} })).structuredContent.threads ?? [];

// Ann connects an assistant, which then works as her.
const assistant = await signIn(ANN);
assert.ok(assistant.client.client_id);
assert.equal(claims(assistant.held.access_token).client_id, assistant.client.client_id);
const client = await assistant.connect();
assert.ok((await client.listTools()).tools.length > 10);
const said = await client.callTool({ name: 'chat', arguments: { prompt: `Hello. ${MARK}` } });
assert.ok(!said.isError, JSON.stringify(said.content));
const thread = said.structuredContent.continuation_id;
assert.deepEqual((await threads(client)).map(({ continuation_id }) => continuation_id), [thread]);

// A second sign-in of the same client asks her nothing, and Ben's assistant sees nothing of hers.
const again = new Assistant();
again.client = assistant.client;
const transport = await again.askUser();
await transport.finishAuth((await decide(again, ANN, 'deny')).searchParams.get('code'));
assert.deepEqual((await threads(await again.connect())).length, 1);
const bens = await (await signIn(BEN)).connect();
assert.deepEqual(await threads(bens), []);
assert.match((await bens.callTool({ name: 'get_thread', arguments: { continuation_id: thread } })).content[0].text, /^chat_not_found: /);

// The token opens the tools alone.
const refused = await fetch(`${BASE_URL}/v1/chats`, { headers: { Authorization: `Bearer ${assistant.held.access_token}` } });
assert.equal(refused.status, 403);
assert.equal((await refused.json()).code, 'forbidden_client');

// When it has expired, the assistant gets another by itself, and the refresh token is a new one.
const before = assistant.held;
assistant.held = { ...before, access_token: EXPIRED };
assert.equal((await threads(await assistant.connect())).length, 1);
assert.notEqual(assistant.held.access_token, EXPIRED);
assert.notEqual(assistant.held.refresh_token, before.refresh_token);

// Ann says no to another one.
const other = new Assistant();
await other.askUser();
assert.equal((await decide(other, ANN, 'deny')).searchParams.get('error'), 'access_denied');

// She takes back what she allowed: with the next refresh the assistant has to ask her again.
assert.equal((await auth(ANN, `/user/oauth/grants?client_id=${assistant.client.client_id}`, { method: 'DELETE' })).status, 204);
assistant.held = { ...assistant.held, access_token: EXPIRED };
assistant.asked = undefined;
await assistant.askUser();
assert.ok(assistant.asked, 'the user was not asked again');
console.log(JSON.stringify({ client_id: assistant.client.client_id, thread }));
process.exit();
