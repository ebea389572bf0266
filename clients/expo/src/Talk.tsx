import { useChat } from '@arcoscribe/throughline/react';
import type { ChatMessage } from '@arcoscribe/throughline/react';
import { useEffect, useState, useSyncExternalStore } from 'react';
import { FlatList, Text, TextInput, View } from 'react-native';

import type { Account, Device } from './account';
import { Memories } from './Memories';
import { Button, Problem } from './parts';
import type { Session } from './session';
import { useStyles } from './theme';

interface Props {
  account: Account;
  device: Device;
  session: Session;
}

/** One chat: a new one, or the one that was open when the app ended. */
export function Talk({ account, device, session }: Props) {
  const styles = useStyles();
  const [remembers, setRemembers] = useState(false);
  const chatId = useSyncExternalStore(session.subscribe, session.chatId);
  const { api } = account;
  const chat = useChat({ api, chatId, outbox: session.outbox, randomUUID: device.randomUUID });
  useEffect(() => {
    if (chat.chatId) session.open(chat.chatId);
  }, [chat.chatId]);

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
        renderItem={({ item }) => <Message message={item} onRetry={chat.retry} />}
        contentContainerStyle={styles.list}
        onEndReached={() => chat.hasOlder && void chat.loadOlder()}
        keyboardShouldPersistTaps="handled"
      />
      <Problem error={chat.error} />
      <Composer chat={chat} />
      {remembers && <Memories api={api} onClose={() => setRemembers(false)} />}
    </View>
  );
}

function Message({ message, onRetry }: { message: ChatMessage; onRetry: () => Promise<void> }) {
  const styles = useStyles();
  const { role, content, status, failure } = message;
  if (role === 'user') {
    return (
      <View style={styles.mine}>
        <Text selectable style={styles.reply}>{content}</Text>
      </View>
    );
  }
  const failed = status === 'failed' || status === 'interrupted';
  return (
    <View>
      <Text selectable style={styles.reply}>{content || (failed ? '' : '…')}</Text>
      {status === 'cancelled' && <Text style={styles.faint}>Stopped</Text>}
      {failed && <Text style={styles.bad}>{failure?.message ?? 'The reply broke off.'}</Text>}
      {failed && <Button label="Try again" onPress={() => void onRetry()} />}
    </View>
  );
}

function Composer({ chat }: { chat: ReturnType<typeof useChat> }) {
  const styles = useStyles();
  const [text, setText] = useState('');
  const [error, setError] = useState<unknown>();
  const content = text.trim();
  const busy = chat.status === 'waiting' || chat.status === 'streaming';

  function attempt(deed: Promise<void>) {
    setError(undefined);
    deed.catch(setError);
  }

  function send() {
    if (!content) return;
    setText('');
    attempt(chat.send(content));
  }

  return (
    <View>
      <Problem error={error} />
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
    </View>
  );
}
