/** The apps' side of a test: does what the stage orders, with the package, and reports what an app's user sees. */
import { cancel, follow, isOver, openOutbox, watchedTurn } from '@arcoscribe/throughline';
import { supabaseApi } from '@arcoscribe/throughline/supabase';

/**
 * @param {object} options
 * @param {(state: object) => void} options.report
 * @param {{getItem: Function, setItem: Function}} options.storage survives the app
 * @param {{background?: Function, foreground?: Function}} [options.phone] what the platform does to an app; without it
 *   the app lets go and follows once more by itself
 * @param {object} [options.platform] what its Api has besides
 * @returns {(order: {do: string, with: object}) => Promise<void>}
 */
export function appOf({ report, storage, phone = {}, platform = {} }) {
  const app = { turn: undefined, done: 0, ends: 0 };
  const session = sessionOf();
  const api = supabaseApi(session.supabase, '', platform);
  let outbox;

  const tell = () => report({ ...app, renewals: session.renewals });
  const onChange = (turn) => {
    if (turn === app.turn && isOver(turn)) app.ends++;
    tell();
  };
  const open = async () => {
    outbox = await openOutbox({ storage, api, onChange });
    app.turn = outbox.turns.at(-1) ?? app.turn;
  };
  const deeds = {
    async launch({ baseUrl, silence, tokens }) {
      Object.assign(api, { baseUrl, silence });
      session.tokens = tokens;
      await open();
    },
    async send(message) {
      app.ends = 0;
      app.turn = await outbox.send(message);
    },
    watch(reply) {
      app.turn = watchedTurn(reply);
      follow(app.turn, api, onChange);
    },
    async sendAgain() {
      app.ends = 0;
      await outbox.sendAgain(app.turn);
    },
    background: () => (phone.background ?? outbox.close)(),
    foreground: () => (phone.foreground ?? open)(),
    async cancel({ chatId }) {
      app.cancelled = await cancel(chatId, api);
    },
    kill: () => outbox.close(),
  };
  return async (order) => {
    await deeds[order.do](order.with ?? {});
    app.done++;
    tell();
  };
}

/** Stands in for supabase-js: each renewal returns the next token, as long as there is one. */
function sessionOf() {
  const session = { tokens: [], renewals: 0 };
  const answer = () => ({ data: { session: { access_token: session.tokens[0] } }, error: null });
  const getSession = async () => answer();
  const refreshSession = async () => {
    session.renewals++;
    if (session.tokens.length > 1) session.tokens.shift();
    return answer();
  };
  session.supabase = { auth: { getSession, refreshSession } };
  return session;
}

/** Takes orders from the stage, one after the other, until it is taken down. */
export async function play(stage, perform) {
  for (;;) {
    const response = await fetch(`${stage}/next`);
    if (response.status === 410) return;
    if (response.status === 200) await perform(await response.json());
  }
}

/** Sends reports one after the other, so that they arrive in order; of many at once the last alone. */
export function reporter(stage) {
  const latest = new Map();
  let sending = false;
  const send = async () => {
    sending = true;
    for (const [app, state] of latest) {
      latest.delete(app);
      await fetch(`${stage}/report/${app}`, { method: 'POST', body: state });
    }
    sending = false;
  };
  return (app, state) => {
    latest.set(app, JSON.stringify(state));
    if (!sending) send();
  };
}
