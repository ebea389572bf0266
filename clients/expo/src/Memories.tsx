import type { Api } from '@arcoscribe/throughline';
import { useMemories } from '@arcoscribe/throughline/react';
import { useState } from 'react';
import { FlatList, Modal, Switch, Text, View } from 'react-native';

import { Button, Problem } from './parts';
import { useStyles } from './theme';

/** What the user is remembered for, in all chats. */
export function Memories({ api, onClose }: { api: Api; onClose: () => void }) {
  const styles = useStyles();
  const [error, setError] = useState<unknown>();
  const { memories, inbox, remembering, status, hasMore, ...mine } = useMemories(api);
  const attempt = (deed: Promise<void>) => void deed.then(() => setError(undefined), setError);

  return (
    <Modal animationType="slide" presentationStyle="pageSheet" onRequestClose={onClose}>
      <View style={styles.screen}>
        <View style={styles.bar}>
          <Text style={styles.title} accessibilityRole="header">What it remembers of me</Text>
          <Switch
            accessibilityLabel="Remember me"
            disabled={remembering === undefined}
            value={remembering ?? false}
            onValueChange={(on) => attempt(mine.setRemembering(on))}
          />
          <Button label="Done" onPress={onClose} />
        </View>
        <Problem error={error ?? mine.error} />
        <FlatList
          data={[...inbox, ...memories]}
          keyExtractor={({ id }) => id}
          contentContainerStyle={styles.list}
          onEndReached={() => hasMore && attempt(mine.loadMore())}
          ListEmptyComponent={status === 'ready'
            ? <Text style={styles.empty}>Nothing yet. What you tell in a chat comes here when the chat has rested.</Text>
            : null}
          renderItem={({ item: { id, content, status: state, sources } }) => (
            <View style={styles.row}>
              <Text style={styles.reply}>{content}</Text>
              {sources[0]?.quote && <Text style={styles.faint}>“{sources[0].quote}”</Text>}
              <View style={styles.choices}>
                {state === 'inbox' && <Button label="That is right" onPress={() => attempt(mine.confirm(id))} />}
                <Button label="Forget" onPress={() => attempt(mine.forget(id))} />
              </View>
            </View>
          )}
        />
      </View>
    </Modal>
  );
}
