/** How a person signs in with a Supabase project, by supabase-js itself. The project is the stand-in of signin_test.go. */
import { assert, BASE, eventually, isAccessible, newBrowser, picture, run } from './harness.mjs';

const stage = async (path) => {
  const answer = await fetch(process.env.STAGE + path, { method: 'POST' });
  assert.equal(answer.status, 200);
  return path === '/state' ? answer.json() : undefined;
};

const context = await newBrowser();
const tab = await context.newPage();
const composer = tab.getByRole('textbox', { name: 'Message', exact: true });

async function signIn(email, password = 'correct horse') {
  await tab.getByLabel('Email').fill(email);
  await tab.getByLabel('Password').fill(password);
  await tab.getByRole('button', { name: 'Sign in' }).click();
}

const stored = () => tab.evaluate(() => Object.keys(localStorage).filter((key) => key !== 'throughline.theme'));

await run({
  async 'a wrong password is said, the right one opens the page'() {
    await tab.goto(`${BASE}/app/chats/new`);
    await tab.getByLabel('Email').waitFor();
    await isAccessible(tab, 'signing in');
    await picture(tab, 'sign-in-project');
    await signIn('ada@example.com', 'wrong');
    await tab.getByRole('alert').getByText('Invalid login credentials').waitFor();
    await signIn('ada@example.com');
    await composer.waitFor();
    await tab.reload();
    await composer.fill('My first message');
    await tab.getByRole('button', { name: 'Send' }).click();
    await tab.waitForURL(/\/chats\/[0-9a-f-]{36}$/);
    await tab.getByRole('button', { name: 'Send' }).waitFor();
  },

  async 'a token that has expired is renewed, and no one notices'() {
    const before = (await stage('/state')).renewals;
    await stage('/expire');
    await tab.evaluate(() => { // as after an hour: supabase-js asks for a new one
      const key = Object.keys(localStorage).find((one) => one.endsWith('-auth-token'));
      localStorage.setItem(key, JSON.stringify({ ...JSON.parse(localStorage.getItem(key)), expires_at: 1 }));
    });
    const refused = tab.waitForResponse((response) => response.status() === 401 && response.url().includes('/v1/'));
    await tab.reload(); // the new token is over as well: the server refuses it, and another one is asked for
    await refused;
    await stage('/restore');
    await composer.fill('My second message');
    await tab.getByRole('button', { name: 'Send' }).click();
    await tab.locator('.message.assistant').nth(1).waitFor();
    await tab.getByRole('button', { name: 'Send' }).waitFor();
    assert.ok((await stage('/state')).renewals > before);
    await eventually(async () => assert.equal(await tab.getByRole('dialog').count(), 0));
  },

  async 'when the session is over, signing in again goes on with the draft'() {
    await composer.fill('Still unsent');
    await stage('/end');
    await tab.evaluate(() => {
      const key = Object.keys(localStorage).find((one) => one.endsWith('-auth-token'));
      localStorage.setItem(key, JSON.stringify({ ...JSON.parse(localStorage.getItem(key)), expires_at: 1 }));
    });
    await tab.getByRole('button', { name: 'Send' }).click();
    await tab.getByRole('dialog', { name: 'Your session has ended' }).waitFor();
    await isAccessible(tab, 'the end of a session');
    await picture(tab, 'session-over');
    await stage('/restore');
    await signIn('ada@example.com');
    await tab.getByRole('dialog').waitFor({ state: 'detached' });
    await tab.locator('.message.assistant').nth(2).waitFor();
    await tab.getByRole('button', { name: 'Send' }).waitFor();
    await eventually(async () => assert.equal(await tab.locator('.message.user').filter({ hasText: 'Still unsent' }).count(), 1));
  },

  async 'signing out ends the session there, and leaves nothing here'() {
    await tab.getByRole('link', { name: 'All chats' }).click(); // on a phone the bar of a chat has other things
    await tab.getByRole('button', { name: /Sign out, ada@example\.com/ }).click();
    await tab.getByLabel('Email').waitFor();
    await eventually(async () => assert.equal((await stage('/state')).sessions, 0));
    await eventually(async () => assert.deepEqual(await stored(), []));
  },

  async 'a link by mail signs in, for another user who sees nothing of the first'() {
    await tab.goto(`${BASE}/app/`);
    await tab.getByRole('button', { name: 'Send me a link instead' }).click(); // the address is missing
    await tab.getByLabel('Email').fill('bea@example.com');
    await tab.getByRole('button', { name: 'Send me a link instead' }).click();
    await tab.getByText('A link is on its way to bea@example.com.').waitFor();
    await tab.goto(`${BASE}/app/?code=${(await stage('/state')).code}`);
    await tab.getByText('You have no chats yet.').waitFor();
    await tab.getByRole('button', { name: /Sign out, bea@example\.com/ }).waitFor();
    assert.equal(new URL(tab.url()).search, '');
  },
});
