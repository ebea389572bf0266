/** A reply with tools as the AI SDK's own chat shows it: heard as it goes on, and replayed. */
import assert from 'node:assert/strict';

import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses, lastAssistantMessageIsCompleteWithToolCalls } from 'ai';

import { Chat } from './chat.js';

const streams = JSON.parse(process.env.STREAMS);

/** A chat whose requests are answered with these streams, in turn. */
function chatOf(...names) {
  const seen = { requests: 0, ran: [] };
  const fetch = async () => new Response(streams[names[seen.requests++]], { headers: { 'content-type': 'text/event-stream' } });
  const chat = new Chat({
    transport: new DefaultChatTransport({ fetch }),
    onToolCall: ({ toolCall }) => void seen.ran.push(toolCall.toolCallId),
    sendAutomaticallyWhen: (state) =>
      lastAssistantMessageIsCompleteWithToolCalls(state) || lastAssistantMessageIsCompleteWithApprovalResponses(state),
  });
  return { chat, seen };
}

/** What an app shows of the last message. */
function shown({ lastMessage: { parts, metadata } }) {
  const line = (part) => {
    if (part.type === 'dynamic-tool') return `${part.toolCallId} ${part.state} ${part.input.a} ${part.output ?? part.errorText ?? ''}`.trim();
    return part.type === 'step-start' ? '|' : (part.text ?? part.url);
  };
  return [...parts.map(line), metadata.status];
}

const settle = () => new Promise((resolve) => setTimeout(resolve, 50));

const first = ['Let me see.', 'hm', 'c1 input-available é', 's1 output-available é 1', 'a1 approval-requested é', 'awaiting'];
const last = [
  'Let me see.', 'hm', 'c1 output-available é photo', 's1 output-available é 1', 'a1 output-error é No taxi.',
  '|', '\n\nOne more.', 'a2 output-denied é', '|', 'Fine.', 'https://a.example', 'complete',
];

const live = chatOf('first', 'second', 'third');
await live.chat.sendMessage({ text: 'Hello.' });
assert.deepEqual(shown(live.chat), first);
await live.chat.addToolApprovalResponse({ id: 'a1', approved: true });
await live.chat.addToolOutput({ tool: 'tool', toolCallId: 'c1', output: 'photo' });
await settle();
assert.equal(shown(live.chat).at(-2), 'a2 approval-requested é');
await live.chat.addToolApprovalResponse({ id: 'a2', approved: false });
await settle();
assert.deepEqual(shown(live.chat), last);
assert.deepEqual(live.seen, { requests: 3, ran: ['c1'] });
assert.equal(live.chat.messages.length, 2);

// A replay runs no tool again, and no ending makes the chat send results by itself.
for (const [name, ending] of [['whole', 'complete'], ['cancelled', 'cancelled'], ['failed', 'failed'], ['silent', 'complete']]) {
  const { chat, seen } = chatOf(name);
  await chat.sendMessage({ text: 'Hello.' });
  await settle();
  assert.equal(shown(chat).at(-1), ending);
  if (name === 'whole') assert.deepEqual(shown(chat), last);
  assert.deepEqual(seen, { requests: 1, ran: [] }, name);
}
