import { useLocation } from 'preact-iso';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { sayError, useClient } from '../api';
import { tellChange } from '../changes';
import type { Schemas } from '../throughline';
import { announce } from '../ui/announce';
import { confirm } from '../ui/confirm';

type Chat = Schemas['Chat'];

/** Changes what a chat is called and how it is kept, or deletes it. */
export function ChatSettings({ chat, onChange, onClose }: { chat: Chat; onChange: (chat: Chat) => void; onClose: () => void }) {
  const { client } = useClient();
  const { route } = useLocation();
  const dialog = useRef<HTMLDialogElement>(null);
  const [problem, setProblem] = useState('');
  const path = { chat_id: chat.id };
  useLayoutEffect(() => dialog.current!.showModal(), []);

  async function save(event: SubmitEvent) {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const tags = String(form.get('tags')).split(',').map((tag) => tag.trim()).filter(Boolean);
    const body = { title: String(form.get('title')).trim(), tags, remember: form.get('temporary') === null };
    try {
      const { data } = await client.PATCH('/v1/chats/{chat_id}', { params: { path }, body });
      onChange(data);
      tellChange();
      dialog.current!.close();
    } catch (error) {
      setProblem(sayError(error));
    }
  }

  async function forget() {
    const sure = await confirm({
      title: 'Delete this chat?',
      text: 'Its messages are deleted, and what is remembered of it. This cannot be undone.',
      action: 'Delete it',
    });
    if (!sure) return;
    try {
      await client.DELETE('/v1/chats/{chat_id}', { params: { path } });
      dialog.current!.close();
      tellChange();
      announce('The chat is deleted.');
      route('/app/');
    } catch (error) {
      setProblem(sayError(error));
    }
  }

  return (
    <dialog ref={dialog} aria-labelledby="settings" onClose={onClose}>
      <h2 id="settings">This chat</h2>
      <form onSubmit={save}>
        <label>Title <input name="title" maxLength={500} dir="auto" defaultValue={chat.title} /></label>
        <label>Tags, with commas between them <input name="tags" dir="auto" defaultValue={chat.tags.join(', ')} /></label>
        <label class="check">
          <input type="checkbox" name="temporary" defaultChecked={!chat.remember} />{' '}
          Temporary: other chats learn nothing of this one, and it nothing of them
        </label>
        {problem && <p role="alert">{problem}</p>}
        <div class="choices">
          <button type="button" class="danger" onClick={forget}>Delete the chat</button>
          <button type="button" onClick={() => dialog.current!.close()}>Cancel</button>
          <button class="primary">Save</button>
        </div>
      </form>
    </dialog>
  );
}
