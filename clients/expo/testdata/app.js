/** The sample app in a browser: React Native for Web in the phone's place. Reports the texts on its screen. */
import { createClient } from '@supabase/supabase-js';
import { createElement, StrictMode } from 'react';
import { createRoot } from 'react-dom/client';

import { playInFrames } from '../../testdata/frames.js';
import { supabaseAccount, tokenAccount } from '../src/account';
import { Screen } from '../src/Screen';

playInFrames((report, storage) => {
  let done = 0;
  const listeners = new Set();
  const device = {
    storage: {
      getItem: async (key) => storage.getItem(key) || null,
      setItem: async (key, value) => storage.setItem(key, value),
      removeItem: async (key) => storage.setItem(key, ''),
    },
    appState: {
      addEventListener(_, listener) {
        listeners.add(listener);
        return { remove: () => listeners.delete(listener) };
      },
    },
    randomUUID: () => crypto.randomUUID(),
  };

  const accountOf = ({ baseUrl, supabase }) => {
    if (!supabase) return tokenAccount(baseUrl, device);
    const auth = { storage: device.storage, storageKey: 'auth', detectSessionInUrl: false };
    return supabaseAccount(createClient(supabase, 'sb_publishable_key', { auth }), baseUrl, device);
  };

  const all = (selector) => [...document.querySelectorAll(selector)];
  const tell = () =>
    report({
      done,
      texts: all('[dir=auto]').map(({ textContent }) => textContent),
      labels: all('[aria-label]').map(({ ariaLabel }) => ariaLabel),
    });
  const labelled = (label) => document.querySelector(`[aria-label="${label}"]`);
  const setState = (state) => listeners.forEach((listener) => listener(state));

  const deeds = {
    launch(server) {
      const root = document.body.appendChild(document.createElement('main'));
      Object.assign(root.style, { display: 'flex', height: '600px' });
      const report = document.getElementById('seen'); // which changes with each report
      const watch = (changes) => changes.some(({ target }) => !report.contains(target)) && tell();
      new MutationObserver(watch).observe(document.body, { childList: true, subtree: true, characterData: true });
      const screen = createElement(Screen, { account: accountOf(server), device, serverTools: server.serverTools ?? [] });
      createRoot(root).render(createElement(StrictMode, null, screen));
    },
    type({ label, text }) {
      const field = labelled(label);
      Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field), 'value').set.call(field, text); // past React's own
      field.dispatchEvent(new Event('input', { bubbles: true }));
    },
    press: ({ button }) =>
      all('[role=button]').find(({ textContent }) => textContent === button).click(),
    async hold({ text }) {
      const pressed = all('[dir=auto]').find(({ textContent }) => textContent === text);
      const press = (kind) => pressed.dispatchEvent(new MouseEvent(kind, { bubbles: true, cancelable: true, button: 0, buttons: 1 }));
      press('mousedown');
      for (let i = 0; i < 200 && !labelled('Your message'); i++) await new Promise((resolve) => setTimeout(resolve, 20));
      press('mouseup');
    },
    background: () => setState('background'),
    foreground: () => setState('active'),
  };
  return async (order) => {
    await deeds[order.do](order.with ?? {});
    done++;
    tell();
  };
});
