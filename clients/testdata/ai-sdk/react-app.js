/** An app on React: the screen of the docs, or `useThroughline` or `useChat` alone. Reports what its page shows. */
import { historyOf, ThroughlineTransport } from '@arcoscribe/throughline/ai-sdk';
import { useThroughline } from '@arcoscribe/throughline/ai-sdk/react';
import { createElement, StrictMode, useEffect } from 'react';
import { createRoot } from 'react-dom/client';

import { playInFrames } from '../frames.js';
import { Conversation } from './conversation.tsx';
import { usePlainly } from './plainly.ts';

const hooks = { useThroughline, usePlainly };

playInFrames((report) => {
  const app = { done: 0, ends: 0 };
  let chat; // of a screen without buttons

  const shown = () => [...document.querySelectorAll('p')].map(({ className, textContent }) => [className, textContent]);
  const buttons = () => [...document.querySelectorAll('button')].map(({ textContent }) => textContent);
  const tell = () => {
    if (!chat) return report({ ...app, shown: shown(), buttons: buttons() });
    const { status, error, messages } = chat;
    const last = messages.at(-1)?.metadata;
    report({ ...app, shown: shown(), status, error: error && { name: error.constructor.name, code: error.code }, last });
  };

  function Screen({ hook, transport, id, messages }) {
    chat = hooks[hook](transport, { id, messages, onFinish: () => app.ends++ });
    useEffect(tell);
    return chat.messages.map(({ id: key, role, parts }) =>
      createElement('p', { key, className: role }, ...parts.map(({ text }) => text)),
    );
  }

  const deeds = {
    launch({ baseUrl, token, hook, id, rows }) {
      const transport = new ThroughlineTransport({ baseUrl, accessToken: async () => token });
      const root = document.body.appendChild(document.createElement('main'));
      const screen = hook
        ? createElement(Screen, { hook, transport, id, messages: rows && historyOf(rows) })
        : createElement(Conversation, { transport, id, rows });
      new MutationObserver(tell).observe(root, { childList: true, subtree: true, characterData: true });
      createRoot(root).render(createElement(StrictMode, null, screen));
    },
    send: ({ text }) => void chat.sendMessage({ text }),
    regenerate: () => void chat.regenerate(),
    stop: async () => void (await chat.stop()),
    type({ text }) {
      document.querySelector('input').value = text;
      document.querySelector('form').requestSubmit();
    },
    press: ({ button }) =>
      [...document.querySelectorAll('button')].find(({ textContent }) => textContent === button).click(),
  };
  return async (order) => {
    await deeds[order.do](order.with ?? {});
    app.done++;
    tell();
  };
});
