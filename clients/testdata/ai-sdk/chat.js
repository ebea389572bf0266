/** A chat of the AI SDK without a user interface: what useChat is in an app. */
import { Disconnected } from '@arcoscribe/throughline/ai-sdk';
import { AbstractChat } from 'ai';

class State {
  status = 'ready';
  error = undefined;
  constructor(messages) {
    this.messages = messages;
  }
  pushMessage = (message) => (this.messages = [...this.messages, message]);
  popMessage = () => (this.messages = this.messages.slice(0, -1));
  replaceMessage = (index, message) => (this.messages = this.messages.with(index, structuredClone(message)));
  snapshot = (value) => structuredClone(value);
}

export class Chat extends AbstractChat {
  finishes = [];
  onDisconnected = () => {};

  constructor({ messages = [], ...init }) {
    super({
      generateId: () => crypto.randomUUID(),
      ...init,
      state: new State(messages),
      onError: (error) => error instanceof Disconnected && this.onDisconnected(error),
      onFinish: ({ isAbort, isDisconnect, isError, finishReason }) =>
        this.finishes.push({ isAbort, isDisconnect, isError, finishReason }),
    });
  }

  get reply() {
    return this.messages.findLast(({ role }) => role === 'assistant');
  }

  get text() {
    return textOf(this.reply);
  }
}

export function textOf(message) {
  return message?.parts.map((part) => part.text).join('');
}
