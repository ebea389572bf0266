import type { Part, ToolCallPart } from '@arcoscribe/throughline';
import type { Chat, ChatMessage, PendingCall, Tools } from '@arcoscribe/throughline/react';
import { Text, View } from 'react-native';

import { Button } from './parts';
import { useStyles } from './theme';

const onThePhone: Tools = {
  get_date: {
    description: 'The date, the time and the time zone of the phone.',
    parameters: { type: 'object', properties: {}, required: [], additionalProperties: false },
    strict: true,
    execute: () => ({ now: new Date().toString(), zone: Intl.DateTimeFormat().resolvedOptions().timeZone }),
  },
};

/** What the model may call: the phone's tools, and those of the server, whose descriptions and addresses the server has. */
export function toolsWith(serverTools: readonly string[]): Tools {
  return { ...onThePhone, ...Object.fromEntries(serverTools.map((name) => [name, {}])) };
}

interface Said {
  message: ChatMessage;
  chat: Chat;
  attempt: (deed: Promise<void>) => void;
}

/** The calls of a reply: how each stands, and a card for each that waits for its user. */
export function Calls({ message: { parts = [], calls = [] }, chat, attempt }: Said) {
  const styles = useStyles();
  return (
    <View>
      {parts.filter(isCall).map(({ call_id: id, name }) => (
        <Text key={id} style={styles.faint}>{`${name}: ${stateOf(id, parts)}`}</Text>
      ))}
      {calls.map((call) => <Card key={call.callId} {...{ call, chat, attempt }} />)}
    </View>
  );
}

function Card({ call, chat, attempt }: { call: PendingCall } & Pick<Said, 'chat' | 'attempt'>) {
  const styles = useStyles();
  const { callId, name, arguments: given, run } = call;
  if (run === 'client') return <Text style={styles.faint}>This version of the app cannot do that.</Text>;
  return (
    <View style={styles.card}>
      <Text style={styles.reply}>{name}</Text>
      <Text style={styles.faint}>{JSON.stringify(given, undefined, 1)}</Text>
      <View style={styles.choices}>
        <Button label="Approve" onPress={() => attempt(chat.approve(callId))} />
        <Button label="Deny" onPress={() => attempt(chat.deny(callId))} />
      </View>
    </View>
  );
}

const isCall = (part: Part): part is ToolCallPart => part.type === 'tool_call';

function stateOf(id: string, parts: readonly Part[]): string {
  const result = parts.find((part) => part.type === 'tool_result' && part.call_id === id);
  return result?.type === 'tool_result' ? result.status : 'waits';
}
