import './talk.css';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ChatList } from './list';
import { Conversation } from './conversation';

/** Where list and chat stand side by side; see talk.css. */
const sideBySide = matchMedia('(min-width: 56rem)');

/**
 * Talk: /app/ is home, where a chat begins beside the list of the others, /app/chats/:id one of them, /app/chats/new the one
 * that begins next. ?message=<id> or ?seq=<number> goes to a message.
 */
export function Talk({ id }: { id?: string }) {
  const [wide, setWide] = useState(sideBySide.matches);
  useEffect(() => {
    const changed = () => setWide(sideBySide.matches);
    sideBySide.addEventListener('change', changed);
    return () => sideBySide.removeEventListener('change', changed);
  }, []);
  const chatId = id === 'new' ? undefined : id;
  const shown = useRef({ chatId, key: 0, begun: '' }).current;
  if (shown.chatId !== chatId) { // another one; a chat that begins here gets its id and stays
    if (shown.chatId || chatId !== shown.begun) Object.assign(shown, { key: shown.key + 1, begun: '' });
    shown.chatId = chatId;
  }
  const list = <ChatList key="list" current={chatId} />;
  const chat = <Conversation key={shown.key} chatId={chatId} home={!id} onBegin={(begun) => (shown.begun = begun)} />;
  return <main id="main" tabIndex={-1} class={id ? 'talk in-chat' : 'talk'}>{wide ? [list, chat] : [chat, list]}</main>;
}
