/**
 * A person connects an assistant: the assistant is the official MCP client, the person uses the page, with supabase-js,
 * and a stand-in of Supabase Auth lies between them.
 */
import { createServer } from 'node:http';
import { once } from 'node:events';

import { UnauthorizedError } from '../../../../clients/mcp/node_modules/@modelcontextprotocol/sdk/dist/esm/client/auth.js';
import { Client } from '../../../../clients/mcp/node_modules/@modelcontextprotocol/sdk/dist/esm/client/index.js';
import { StreamableHTTPClientTransport } from '../../../../clients/mcp/node_modules/@modelcontextprotocol/sdk/dist/esm/client/streamableHttp.js';
import { assert, BASE, desktop, eventually, isAccessible, newBrowser, open, phone, picture, run } from './harness.mjs';

const { EMAIL, PASSWORD, LEAVER } = process.env;

/** Where the assistant waits for the browser to come back. */
const callback = createServer((request, answer) => {
  const query = new URL(request.url, 'http://localhost').searchParams;
  if (query.has('state')) callback.emit('back', Object.fromEntries(query));
  answer.setHeader('Content-Type', 'text/html').end('<!doctype html><html lang="en"><title>Connected</title><h1>Back in the assistant</h1>');
});
await once(callback.listen(0, 'localhost'), 'listening');
const { port } = callback.address();
const CALLBACK = `http://localhost:${port}/callback`;

class Assistant {
  redirectUrl = CALLBACK;

  constructor(name) {
    this.clientMetadata = { client_name: name, redirect_uris: [CALLBACK], token_endpoint_auth_method: 'none', scope: 'email' };
  }

  state() { return 'a state'; }

  clientInformation() { return this.client; }

  saveClientInformation(client) { this.client = client; }

  tokens() { return this.held; }

  saveTokens(tokens) { this.held = tokens; }

  redirectToAuthorization(url) { this.asked = url.href; }

  saveCodeVerifier(verifier) { this.verifier = verifier; }

  codeVerifier() { return this.verifier; }

  invalidateCredentials() { this.held = undefined; }

  async connect() {
    this.transport = new StreamableHTTPClientTransport(new URL('/mcp', BASE), { authProvider: this });
    const client = new Client({ name: 'assistant', version: '1.0.0' });
    await client.connect(this.transport);
    return client;
  }

  /** Connects without a token; returns the address that the person is to open. */
  async ask() {
    await assert.rejects(this.connect(), UnauthorizedError);
    return this.asked;
  }
}

const context = await newBrowser({ viewport: phone });
const tab = await context.newPage();
const ada = new Assistant('Ada’s assistant');
let answered;

async function goBack(deed) {
  const [[query]] = await Promise.all([once(callback, 'back'), deed()]);
  assert.equal(query.state, 'a state');
  await tab.getByRole('heading', { name: 'Back in the assistant' }).waitFor();
  return query;
}

await run({
  async 'signs in first, and reads who asks'() {
    await tab.goto(await ada.ask());
    await tab.getByLabel('Email').fill(EMAIL);
    await tab.getByLabel('Password').fill(PASSWORD);
    await tab.getByRole('button', { name: 'Sign in', exact: true }).click();
    await tab.getByRole('heading', { name: 'Let “Ada’s assistant” act for you?' }).waitFor();
    await tab.getByText(EMAIL).waitFor();
    await tab.getByText(`a program on this device (localhost:${port})`).waitFor();
    await tab.getByText('learn your email address').waitFor();
    await isAccessible(tab, 'the question');
    await picture(tab, 'consent');
    answered = tab.url();
  },
  async 'allows it, and the assistant works'() {
    const { code } = await goBack(() => tab.getByRole('button', { name: 'Allow', exact: true }).click());
    await ada.transport.finishAuth(code);
    const client = await ada.connect();
    await eventually(async () => assert.ok((await client.listTools()).tools.some(({ name }) => name === 'remember')));
    const said = await client.callTool({ name: 'list_threads', arguments: {} });
    assert.ok(!said.isError, JSON.stringify(said.content));
    await client.close();
  },
  async 'is told of a request that was answered'() {
    await tab.goto(answered);
    await tab.getByRole('alert').filter({ hasText: 'expired, or it was answered already' }).waitFor();
    await isAccessible(tab, 'a request that was answered');
  },
  async 'is asked once: an allowed program goes straight back'() {
    const again = new Assistant(ada.clientMetadata.client_name);
    again.client = ada.client;
    const { code } = await goBack(async () => tab.goto(await again.ask()).catch(() => {})); // the page leaves before it has loaded
    assert.ok(code);
  },
  async 'disconnects it'() {
    await tab.goto(`${BASE}/app/oauth/consent`);
    await tab.getByText('“Ada’s assistant”').waitFor();
    await isAccessible(tab, 'the programs');
    await picture(tab, 'programs');
    await tab.getByRole('button', { name: 'Disconnect Ada’s assistant' }).click();
    await tab.getByText('None is connected.').waitFor();
    await tab.getByRole('status').filter({ hasText: 'is disconnected' }).waitFor();
    ada.held = { ...ada.held, access_token: `${ada.held.access_token}x` };
    await ada.ask(); // its refresh token is no longer good
  },
  async 'says no, by keyboard'() {
    await tab.goto(ada.asked);
    await tab.getByRole('button', { name: 'Do not allow' }).focus();
    const { error, code } = await goBack(() => tab.keyboard.press('Enter'));
    assert.deepEqual({ error, code }, { error: 'access_denied', code: undefined });
  },
  async 'is not fooled by a name'() {
    const odd = new Assistant(`Claude\u202E <b>official</b> ${'x'.repeat(200)}`);
    await tab.goto(await odd.ask());
    const heading = tab.getByRole('heading', { level: 1 });
    await heading.filter({ hasText: 'act for you?' }).waitFor();
    await eventually(async () => assert.equal(await heading.locator('b').count(), 0));
    await eventually(async () => assert.ok((await heading.textContent()).length < 100));
    await isAccessible(tab, 'an odd name');
    const wide = await tab.evaluate(() => document.documentElement.scrollWidth > innerWidth);
    assert.equal(wide, false, 'the page is wider than the phone');
  },
  async 'in the dark, on a desktop'() {
    const dark = await newBrowser({ viewport: desktop, colorScheme: 'dark', storageState: await context.storageState() });
    const page = await dark.newPage();
    await page.goto(await new Assistant('Assistant').ask());
    await page.getByRole('heading', { name: 'Let “Assistant” act for you?' }).waitFor();
    await isAccessible(page, 'the question in the dark');
    await page.goto(`${BASE}/app/oauth/consent`);
    await page.getByText('None is connected.').waitFor();
    await isAccessible(page, 'no programs in the dark');
    await dark.close();
  },
  async 'a link with a token signs no one in where users have accounts'() {
    const other = await newBrowser();
    const page = await open(other, '/app/');
    await page.getByLabel('Email').waitFor();
    assert.ok(!page.url().includes('token'));
    await eventually(async () => assert.equal(await page.evaluate(() => sessionStorage.length), 0));
    await other.close();
  },
  async 'who deletes the account types a word, and is signed out'() {
    const other = await newBrowser();
    const page = await other.newPage();
    await page.goto(`${BASE}/app/memories`);
    await page.getByLabel('Email').fill(LEAVER);
    await page.getByLabel('Password').fill(PASSWORD);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.getByRole('button', { name: 'Delete my account' }).click();
    const dialog = page.getByRole('dialog', { name: 'Delete your account for good?' });
    const last = dialog.getByRole('button', { name: 'Delete my account' });
    await eventually(async () => assert.ok(await last.isDisabled()));
    await dialog.getByLabel('Type “delete” to go on').fill('Delet');
    await eventually(async () => assert.ok(await last.isDisabled()));
    await dialog.getByRole('button', { name: 'Keep' }).click();
    await page.getByRole('button', { name: 'Delete my account' }).click();
    await dialog.getByLabel('Type “delete” to go on').fill('Delete ');
    await isAccessible(page, 'the end of an account');
    await picture(page, 'delete-account');
    await last.click();
    await page.getByRole('alert').getByText('Your login could not be deleted, so nothing was.').waitFor(); // the first time
    await last.click();
    await page.getByText('Your account is deleted, with everything that was stored of you.').waitFor();
    await isAccessible(page, 'after the end');
    await picture(page, 'account-deleted');
    const left = () => page.evaluate(() => Object.keys(localStorage).filter((key) => key !== 'throughline.theme'));
    await eventually(async () => assert.deepEqual(await left(), []));
    await page.getByLabel('Email').fill(LEAVER);
    await page.getByLabel('Password').fill(PASSWORD);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.getByRole('alert').getByText('Invalid login credentials').waitFor();
    await other.close();
  },
  async 'a pasted token connects nothing'() {
    const other = await newBrowser();
    const page = await other.newPage();
    await page.goto(`${BASE}/app/`);
    await page.evaluate((token) => sessionStorage.setItem('throughline.token', token), process.env.TOKEN);
    await page.goto(`${BASE}/app/oauth/consent`);
    await page.getByText('Only an account can connect programs.').waitFor();
    await isAccessible(page, 'with a token');
    await other.close();
  },
});
callback.close();
callback.closeAllConnections();
