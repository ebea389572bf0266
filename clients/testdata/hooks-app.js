/** An app on the hooks, in strict mode. Its user sees messages and memories. */
import { openOutbox } from '@arcoscribe/throughline';
import { useChat, useMemories } from '@arcoscribe/throughline/react';
import { StrictMode, useEffect, useLayoutEffect, useRef, useState } from 'react';
import { createRoot } from 'react-dom/client';

import { Conversation } from './docs/conversation.tsx';
import { Remembered as DocumentedMemories } from './docs/remembered.tsx';
import { playInFrames } from './frames.js';

playInFrames((report, storage) => {
  const app = { done: 0, mounts: 0 };
  let root;
  let api;
  let outbox;
  let chat;
  let memories;
  let show; // another chat

  const errorOf = (error) => error && { status: error.status, code: error.code };
  const page = () => ({
    lines: [...document.querySelectorAll('p, li')].map(({ firstChild }) => firstChild?.textContent ?? ''),
    buttons: [...document.querySelectorAll('button:enabled')].map(({ textContent }) => textContent),
  });
  const tell = () => report({ ...app, ...page(), chat: chat && chatOf(chat), memories: memories && memoriesOf(memories) });

  function chatOf({ chatId, status, hasOlder, error, messages }) {
    const said = messages.map(({ role, content, status: how }) => [role, content, how]);
    const keys = messages.map(({ key }) => key);
    const last = messages.at(-1);
    const { failure, completion } = last ?? {};
    const places = messages.map(({ stored }) => stored && `${stored.version}/${stored.versions}`);
    return { chatId, status, hasOlder, error: errorOf(error), said, keys, places, failure, version: completion?.memory?.brief_version };
  }

  function memoriesOf({ memories: known, inbox, remembering, status, hasMore, error }) {
    const words = (list) => list.map(({ content, pinned }) => (pinned ? `${content}!` : content));
    return { known: words(known), inbox: words(inbox), remembering, status, hasMore, error: errorOf(error) };
  }

  function Screen({ chatId: first, says }) {
    const [chatId, setChatId] = useState(first);
    const hasSaid = useRef(!says);
    chat = useChat({ api, outbox, chatId, pageSize: 4 });
    show = setChatId;
    useLayoutEffect(() => {
      if (!hasSaid.current) void chat.send(says); // before the chat is open
      hasSaid.current = true;
    }, []);
    useEffect(tell);
    return chat.messages.map(({ key, role, content }) => (
      <p key={key} className={role}>
        {content}
      </p>
    ));
  }

  function Remembered() {
    memories = useMemories(api);
    useEffect(tell);
    return null;
  }

  function mount(screen) {
    root = createRoot(document.body.appendChild(document.createElement('main')));
    root.render(<StrictMode>{screen}</StrictMode>);
  }

  /** The screens of the docs, whose user sees lines and buttons. */
  function showDocumented({ baseUrl, token, chatId }) {
    api = { baseUrl, accessToken: async () => token };
    mount(
      <>
        <Conversation api={api} chatId={chatId} />
        <DocumentedMemories api={api} />
      </>,
    );
    const changes = { childList: true, subtree: true, characterData: true, attributes: true };
    new MutationObserver(tell).observe(document.querySelector('main'), changes); // not the report, which is in the page
  }

  function type({ text }) {
    const input = document.querySelector('input');
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(input, text); // past React's own setter
    input.dispatchEvent(new Event('input', { bubbles: true }));
  }

  const press = ({ button }) => [...document.querySelectorAll('button')].find(({ textContent }) => textContent === button).click();

  const idOf = (words) => [...memories.memories, ...memories.inbox].find(({ content }) => content === words).id;

  const deeds = {
    document: showDocumented,
    type,
    press,
    async launch({ baseUrl, token, chatId, kept, says }) {
      api = { baseUrl, accessToken: async () => token };
      outbox = kept && (await openOutbox({ storage, api }));
      mount(<Screen chatId={chatId} says={says} />);
    },
    remember({ baseUrl, token }) {
      api = { baseUrl, accessToken: async () => token };
      mount(<Remembered />);
    },
    send: ({ content }) => chat.send(content),
    stop: () => chat.stop(),
    retry: () => chat.retry(),
    edit: ({ at, content }) => chat.edit(chat.messages[at].id, content),
    regenerate: () => chat.regenerate(),
    async goBack({ at }) {
      const { id, stored } = chat.messages[at];
      const { versions } = await chat.versions(id);
      await chat.select(versions[stored.version - 2].id);
    },
    drop: () => chat.drop(chat.messages.at(-1).key),
    loadOlder: () => chat.loadOlder(),
    show: ({ chatId }) => show(chatId),
    adoptId: () => show(chat.chatId),
    unmount: () => root.unmount(),
    mount: ({ chatId }) => mount(<Screen chatId={chatId} />),
    returns: () => document.dispatchEvent(new Event('visibilitychange')),
    refresh: () => memories.refresh(),
    loadMore: () => memories.loadMore(),
    add: ({ content }) => memories.add(content),
    correct: ({ content, to }) => memories.correct(idOf(content), to),
    confirm: ({ content }) => memories.confirm(idOf(content)),
    pin: ({ content }) => memories.pin(idOf(content)),
    forget: ({ content }) => memories.forget(idOf(content)),
    setRemembering: ({ enabled }) => memories.setRemembering(enabled),
  };
  return async (order) => {
    try {
      await deeds[order.do](order.with ?? {});
    } catch (error) {
      app.refused = errorOf(error) ?? {};
      app.refused.message = error.message;
    }
    app.done++;
    tell();
  };
});
