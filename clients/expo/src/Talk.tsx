import { useChat } from '@arcoscribe/throughline/react';
import type { Chat, ChatMessage } from '@arcoscribe/throughline/react';
import { useEffect, useState, useSyncExternalStore } from 'react';
import { FlatList, Pressable, Text, TextInput, View } from 'react-native';

import type { Account, Device } from './account';
import { Memories } from './Memories';
import { Button, Problem } from './parts';
import type { Session } from './session';
import { useStyles } from './theme';
import { Calls, toolsWith } from './tools';

interface Props {
  account: Account;
  device: Device;
  session: Session;
  serverTools: readonly string[];
}

/** A message that is changed, by its id. It outlives the views: the message leaves, and is back where that is refused. */
interface Change {
  id?: string;
  text: string;
}

/** One chat: a new one, or the one that was open when the app ended. */
export function Talk({ account, device, session, serverTools }: Props) {
  const styles = useStyles();
  const [remembers, setRemembers] = useState(false);
  const [change, setChange] = useState<Change>();
  const [error, setError] = useState<unknown>();
  const chatId = useSyncExternalStore(session.subscribe, session.chatId);
  const { api } = account;
  const chat = useChat({ api, chatId, outbox: session.outbox, tools: toolsWith(serverTools), randomUUID: device.randomUUID });
  useEffect(() => {
    if (chat.chatId) session.open(chat.chatId);
  }, [chat.chatId]);
  const attempt: Attempt = (deed) => {
    setError(undefined);
    deed.catch(setError);
  };

  return (
    <View style={styles.screen}>
      <View style={styles.bar}>
        <Text style={styles.title} accessibilityRole="header">Throughline</Text>
        <Button label="Memories" onPress={() => setRemembers(true)} />
        <Button label="New" onPress={() => session.open(undefined)} />
        <Button label="Sign out" onPress={() => void account.signOut()} />
      </View>
      <FlatList
        inverted
        data={[...chat.messages].reverse()}
        keyExtractor={({ key }) => key}
        renderItem={({ item: message }) => (message.role === 'user'
          ? <Mine {...{ message, chat, attempt, change, setChange }} />
          : <Reply {...{ message, chat, attempt }} />)}
        contentContainerStyle={styles.list}
        onEndReached={() => chat.hasOlder && void chat.loadOlder()}
        keyboardShouldPersistTaps="handled"
      />
      <Problem error={chat.error ?? error} />
      <Composer chat={chat} attempt={attempt} />
      {remembers && <Memories api={api} onClose={() => setRemembers(false)} />}
    </View>
  );
}

type Attempt = (deed: Promise<unknown>) => void;

interface Said {
  message: ChatMessage;
  chat: Chat;
  attempt: Attempt;
}

/** A long press changes it. */
function Mine({ change, setChange, ...said }: Said & { change?: Change; setChange: (change?: Change) => void }) {
  const styles = useStyles();
  const { message: { id, content }, chat, attempt } = said;
  if (!id || change?.id !== id) {
    return (
      <View>
        <Pressable style={styles.mine} onLongPress={() => setChange({ id, text: content })}>
          <Text style={styles.reply}>{content}</Text>
        </Pressable>
        <Versions {...said} />
      </View>
    );
  }
  const send = () => attempt(chat.edit(id, change.text.trim()).then(() => setChange()));
  return (
    <View style={styles.mine}>
      <TextInput
        multiline
        autoFocus
        accessibilityLabel="Your message"
        style={styles.reply}
        value={change.text}
        onChangeText={(text) => setChange({ id, text })}
      />
      <Text style={styles.faint}>What follows is set aside and not remembered. ‹ brings it back.</Text>
      <View style={styles.choices}>
        <Button label="Change" onPress={send} />
        <Button label="Keep" onPress={() => setChange()} />
      </View>
    </View>
  );
}

function Reply(said: Said) {
  const styles = useStyles();
  const { message: { id, key, content, status, failure }, chat, attempt } = said;
  const isLast = chat.status === 'ready' && chat.messages.at(-1)?.key === key;
  const failed = status === 'failed' || status === 'interrupted';
  return (
    <View>
      <Text selectable style={styles.reply}>{content || (failed || status === 'awaiting' ? '' : '…')}</Text>
      <Calls {...said} />
      {status === 'cancelled' && <Text style={styles.faint}>Stopped</Text>}
      {failed && <Text style={styles.bad}>{failure?.message ?? 'The reply broke off.'}</Text>}
      {failed && <Button label="Try again" onPress={() => attempt(chat.retry())} />}
      {isLast && <Button label="Another reply" onPress={() => attempt(chat.regenerate(id))} />}
      <Versions {...said} />
    </View>
  );
}

/** What was said here: ‹ 2/3 › goes through it. */
function Versions({ message: { id, stored }, chat, attempt }: Said) {
  const styles = useStyles();
  if (!id || !stored || stored.versions < 2) return null;
  const { version, versions } = stored;
  const go = async (to: number) => chat.select((await chat.versions(id)).versions[to - 1]!.id);
  return (
    <View style={styles.choices}>
      {version > 1 && <Button label="‹" onPress={() => attempt(go(version - 1))} />}
      <Text style={styles.faint}>{`${version}/${versions}`}</Text>
      {version < versions && <Button label="›" onPress={() => attempt(go(version + 1))} />}
    </View>
  );
}

function Composer({ chat, attempt }: { chat: Chat; attempt: Attempt }) {
  const styles = useStyles();
  const [text, setText] = useState('');
  const content = text.trim();
  const busy = chat.status === 'waiting' || chat.status === 'streaming';

  function send() {
    if (!content) return;
    setText('');
    attempt(chat.send(content));
  }

  return (
    <View style={styles.composer}>
      <TextInput
        multiline
        accessibilityLabel="Message"
        placeholder="Message"
        placeholderTextColor={styles.colors.faint}
        style={styles.input}
        value={text}
        onChangeText={setText}
      />
      {busy ? (
        <Button label="Stop" main onPress={() => attempt(chat.stop())} />
      ) : (
        <Button label="Send" main onPress={send} />
      )}
    </View>
  );
}
