/** Reads the stored messages of a chat. */
import type { Client } from './client.js';
import { ThroughlineError } from './errors.js';
import type { Message } from './parts.js';

/** The most messages that the server sends at once. */
export const LARGE_PAGE = 200;

export interface Page {
  messages: Message[];
  has_more: boolean;
}

export class Pages {
  readonly #client: Client;
  readonly #size: number;
  #tag?: string | null; // of the latest page, as it was read

  constructor(client: Client, size = 50) {
    this.#client = client;
    this.#size = size;
  }

  /** Nothing where it is as it was when it was last read. */
  async latest(chatId: string): Promise<Page | undefined> {
    try {
      const { data, response } = await this.#read(chatId, {}, this.#tag);
      this.#tag = response.headers.get('ETag');
      return data as Page;
    } catch (error) {
      if (error instanceof ThroughlineError && error.status === 304) return undefined;
      throw error;
    }
  }

  async before(chatId: string, seq: number, limit?: number): Promise<Page> {
    return (await this.#read(chatId, { before_seq: seq, limit })).data as Page;
  }

  /** What was read is shown otherwise now. */
  forget(): void {
    this.#tag = undefined;
  }

  #read(chatId: string, { limit = this.#size, ...query }: { before_seq?: number; limit?: number }, tag?: string | null) {
    const params = { path: { chat_id: chatId }, query: { limit, ...query } };
    return this.#client.GET('/v1/chats/{chat_id}/messages', { params, headers: tag ? { 'If-None-Match': tag } : undefined });
  }
}
