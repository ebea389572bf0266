/**
 * A page that plays many apps: each has a frame of its own, as each app has a phone of its own. The script is the
 * same in the page and in its frames.
 */
import { play, reporter } from './stage.js';

/** @param {(report: (state: object) => void, storage: object) => (order: object) => Promise<void>} makeApp */
export function playInFrames(makeApp) {
  if (window.parent === window) return playAll();
  const name = new URLSearchParams(location.search).get('app');
  const storage = {
    getItem: (key) => localStorage.getItem(`${name}.${key}`),
    setItem: (key, value) => localStorage.setItem(`${name}.${key}`, value),
  };
  window.perform = makeApp((state) => {
    document.getElementById('seen').textContent = JSON.stringify(state, undefined, 2);
    window.parent.report(name, state);
  }, storage);
}

async function playAll() {
  const frames = new Map();
  const broken = (what) => fetch('/broken', { method: 'POST', body: String(what?.stack ?? what) });
  window.report = reporter('');
  window.broken = broken;
  window.addEventListener('error', (event) => broken(event.error ?? event.message));
  window.addEventListener('unhandledrejection', (event) => broken(event.reason));
  await play('', async (order) => {
    if (order.do === 'kill') {
      frames.get(order.app).remove();
      frames.delete(order.app);
      window.report(order.app, { killed: true });
      return;
    }
    if (!frames.has(order.app)) frames.set(order.app, await openFrame(order.app));
    await frames.get(order.app).contentWindow.perform(order);
  }).catch(broken);
}

function openFrame(name) {
  return new Promise((resolve) => {
    const frame = document.createElement('iframe');
    frame.src = `/?app=${name}`;
    frame.onload = () => {
      frame.contentWindow.addEventListener('error', (event) => window.broken(event.error ?? event.message));
      frame.contentWindow.addEventListener('unhandledrejection', (event) => window.broken(event.reason));
      resolve(frame);
    };
    document.body.append(frame);
  });
}
