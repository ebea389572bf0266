import type { Api } from './api.js';
import { createClient } from './client.js';
import type { Client, Schemas } from './client.js';
import { Store } from './store.js';

type Memory = Schemas['LongTermMemory'];

export interface MemoriesState {
  /** What replies are shown where it matters, the newest first, with the messages in which the user said it. */
  memories: readonly Memory[];
  /** Uncertain memories: the user confirms or forgets each. */
  inbox: readonly Memory[];
  /** The user's switch; undefined until it was read. */
  remembering?: boolean;
  status: 'loading' | 'ready';
  /** Whether there are older memories. */
  hasMore: boolean;
  /** Why they could not be read. */
  error?: unknown;
}

/** What a user is remembered for in all chats. Without React: `subscribe` and read `state()`. */
export class MemoriesStore extends Store<MemoriesState> {
  readonly #client: Client;
  #cursor: string | null = null;
  #readings = 0;

  constructor(api: Api) {
    super({ memories: [], inbox: [], status: 'loading', hasMore: false });
    this.#client = createClient(api);
  }

  /** Reads again, such as after a chat. The shown memories stay until the new ones are there. */
  readonly refresh = async (): Promise<void> => {
    const reading = ++this.#readings;
    try {
      const [active, inbox, settings] = await Promise.all([
        this.#list('active'),
        this.#list('inbox'),
        this.#client.GET('/v1/memories/settings'),
      ]);
      if (reading !== this.#readings) return;
      const remembering = settings.data.enabled;
      this.set({ memories: [], inbox: inbox.memories, remembering, status: 'ready', error: undefined });
      this.#append(active);
    } catch (error) {
      if (reading === this.#readings) this.set({ error });
    }
  };

  readonly loadMore = async (): Promise<void> => {
    if (!this.#cursor) return;
    const reading = ++this.#readings;
    const page = await this.#list('active', this.#cursor);
    if (reading === this.#readings) this.#append(page);
  };

  /** Has something remembered that the user writes. */
  readonly add = async (content: string): Promise<void> => {
    this.#put((await this.#client.POST('/v1/memories', { body: { content } })).data);
  };

  /** Puts it in the user's words. No model changes it any more. */
  readonly correct = (id: string, content: string) => this.#change(id, { content });

  /** Takes a memory of the inbox for true. */
  readonly confirm = (id: string) => this.#change(id, { status: 'active' });

  /** Shows it to every reply, or no longer. */
  readonly pin = (id: string, pinned = true) => this.#change(id, { pinned });

  readonly forget = async (id: string): Promise<void> => {
    await this.#client.DELETE('/v1/memories/{memory_id}', { params: { path: { memory_id: id } } });
    this.#remove(id);
  };

  /** The switch: with false nothing is remembered any more, and nothing shown to the model. */
  readonly setRemembering = async (enabled: boolean): Promise<void> => {
    const { data } = await this.#client.PATCH('/v1/memories/settings', { body: { enabled } });
    this.set({ remembering: data.enabled });
  };

  async #list(status: 'active' | 'inbox', cursor?: string): Promise<Schemas['MemoryPage']> {
    return (await this.#client.GET('/v1/memories', { params: { query: { status, cursor, limit: 200 } } })).data;
  }

  #append({ memories, next_cursor: cursor }: Schemas['MemoryPage']): void {
    this.#cursor = cursor;
    this.set({ memories: [...this.state().memories, ...memories], hasMore: cursor !== null });
  }

  async #change(id: string, body: Schemas['ChangeMemoryRequest']): Promise<void> {
    const params = { path: { memory_id: id } };
    this.#put((await this.#client.PATCH('/v1/memories/{memory_id}', { params, body })).data);
  }

  /** In its place, or as the newest of its list. */
  #put(memory: Memory): void {
    const list = memory.status === 'inbox' ? 'inbox' : 'memories';
    const { [list]: before } = this.state();
    if (before.some(({ id }) => id === memory.id)) {
      this.set({ [list]: before.map((one) => (one.id === memory.id ? memory : one)) });
      return;
    }
    this.#remove(memory.id);
    if (memory.status === 'inbox' || memory.status === 'active') this.set({ [list]: [memory, ...this.state()[list]] });
  }

  #remove(id: string): void {
    const { memories, inbox } = this.state();
    const others = ({ id: other }: Memory) => other !== id;
    this.set({ memories: memories.filter(others), inbox: inbox.filter(others) });
  }
}
