import './talk.css';
import { ChatList } from './list';
import { Conversation } from './conversation';

/**
 * Talk: /app/ has the list of chats, /app/chats/:id one of them, /app/chats/new the one that begins next. A wide screen
 * shows list and chat side by side. ?message=<id> or ?seq=<number> goes to a message.
 */
export function Talk({ id }: { id?: string }) {
  const chatId = id === 'new' ? undefined : id;
  return (
    <main id="main" tabIndex={-1} class={id ? 'talk in-chat' : 'talk in-list'}>
      <ChatList current={chatId} alone={!id} />
      <Conversation key={chatId ?? 'new'} chatId={chatId} alone={!id} />
    </main>
  );
}
