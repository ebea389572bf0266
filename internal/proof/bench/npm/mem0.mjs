// mem0 as a process: a line of JSON on stdin asks for one thing, a line on stdout answers it.
//
//   {"search": "text"}                        -> {"memories": ["…"]}      what it would show for a question
//   {"add": [{"role": "…", "content": "…"}]}  -> {"added": 2}             what it keeps of a turn
//
// Its model and its embeddings are the server at MODEL_URL, its vectors are in the Postgres at DATABASE_URL. Its
// own history stays in this process: mem0 keeps it with better-sqlite3 otherwise, which is not there without a
// compiler. With it, each extraction would also read the last messages, so that this costs less than usual.
import { createInterface } from "node:readline";
import { Memory } from "mem0ai/oss";

const { MODEL_URL: baseURL, DATABASE_URL: connectionString } = process.env;
const openai = { apiKey: "bench", baseURL };
const dimension = 1536;
const memory = new Memory({
  llm: { provider: "openai", config: openai },
  embedder: { provider: "openai", config: openai },
  vectorStore: { provider: "pgvector", config: { collectionName: "memories", connectionString, dimension, embeddingModelDims: dimension } },
  historyStore: { provider: "memory", config: {} },
});
const userId = "rosa";

async function answer(asked) {
  if (asked.search !== undefined) {
    const { results } = await memory.search(asked.search, { filters: { user_id: userId } });
    return { memories: results.map((found) => found.memory) };
  }
  const { results } = await memory.add(asked.add, { userId });
  return { added: results.length };
}

for await (const line of createInterface({ input: process.stdin })) {
  let answered;
  try {
    answered = await answer(JSON.parse(line));
  } catch (error) {
    answered = { error: String(error) };
  }
  process.stdout.write(JSON.stringify(answered) + "\n");
}

process.exit(0); // its connections would hold it
