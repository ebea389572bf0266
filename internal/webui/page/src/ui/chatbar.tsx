import './menu.css';
import './chatbar.css';
import type { ComponentChildren } from 'preact';
import { Icon } from './icon';

const tabs = [['Chat', ''], ['Memory', '/memory'], ['Topics', '/topics']] as const;

interface Props {
  /** Without one it begins with the next message. */
  chatId?: string;
  title?: string | null;
  current: (typeof tabs)[number][0];
  /** What its title is on this page. */
  as?: 'h1' | 'h2' | 'p';
  /** What stands beside the title. */
  notes?: ComponentChildren;
  /** What can be done with the chat. */
  children?: ComponentChildren;
}

/** The same bar above what was said in a chat, its memory and its topics. */
export function ChatBar({ chatId, title, current, as: Called = 'p', notes, children }: Props) {
  return (
    <section class="chat-head" aria-label="The chat">
      <a class="action back" href="/app/" aria-label="All chats"><Icon name="back" /></a>
      <div class="chat-name">
        <Called id="chat" class="chat-called"><bdi>{chatId ? title === undefined ? '…' : title || 'Untitled' : 'New chat'}</bdi></Called>
        {notes}
      </div>
      {chatId && (
        <nav class="tabs" aria-label="This chat">
          {tabs.map(([name, path]) => <a key={name} href={`/app/chats/${chatId}${path}`} aria-current={name === current ? 'page' : undefined}>{name}</a>)}
        </nav>
      )}
      {children}
    </section>
  );
}
