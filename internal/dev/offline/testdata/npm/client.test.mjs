// OpenAI's official client for JavaScript against the offline model. Run by TestOfficialNodeClient,
// which gives the server's address in OFFLINE_BASE_URL.
import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";

const baseURL = process.env.OFFLINE_BASE_URL;
assert.ok(baseURL, "OFFLINE_BASE_URL is not set");

const client = new OpenAI({ apiKey: "anything", baseURL, maxRetries: 0 });
const model = "gpt-5.6-terra";

const mainPrompt = (question) =>
  [
    "BACKGROUND – PRIOR CONVERSATION SUMMARY (use only if relevant):",
    "The user's sister Ana lives in Porto.",
    "",
    "RECENT CONVERSATION (oldest first):",
    "User: My dog is called Biscuit.",
    "Assistant: Noted.",
    "",
    "CURRENT MESSAGE:",
    question,
  ].join("\n");

test("a stream has every event, in order and numbered", async () => {
  const stream = await client.responses.create({ model, input: mainPrompt("What is my dog's name?"), stream: true, store: false });
  const kinds = [];
  let text = "";
  let last;
  let number = 0;
  for await (const event of stream) {
    assert.equal(event.sequence_number, number++);
    if (kinds.at(-1) !== event.type) kinds.push(event.type);
    if (event.type === "response.output_text.delta") text += event.delta;
    last = event;
  }
  assert.deepEqual(kinds, [
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
    "response.completed",
  ]);
  assert.match(text, /^Earlier you said: "My dog is called Biscuit\."/);
  assert.equal(last.response.output[0].content[0].text, text);
  assert.equal(last.response.metadata.throughline_model, "offline");
  assert.equal(last.response.usage.total_tokens, last.response.usage.input_tokens + last.response.usage.output_tokens);
});

test("the stream helper puts the final response together", async () => {
  const stream = client.responses.stream({ model, input: mainPrompt("Where does Ana live?") });
  const final = await stream.finalResponse();
  assert.equal(final.status, "completed");
  assert.match(final.output_text, /Ana lives in Porto/);
});

test("without a stream the client reads output_text", async () => {
  const { data, response } = await client.responses
    .create({ model, instructions: "Be kind.", input: [{ role: "user", content: [{ type: "input_text", text: "Hello there." }] }] })
    .withResponse();
  assert.equal(response.headers.get("x-throughline-model"), "offline");
  assert.equal(data.status, "completed");
  assert.equal(data.model, model);
  assert.match(data.output_text, /Hello there\./);
  assert.ok(data.usage.input_tokens > 0 && data.usage.output_tokens > 0);
});

test("a hosted prompt needs no model", async () => {
  const input = [
    "=== EXISTING_SUMMARY ===",
    "NONE",
    "=== END_EXISTING_SUMMARY ===",
    "",
    "=== NEW_TURNS ===",
    "Turn 1:",
    "User: My bus is number 728.",
    "Assistant: Fine.",
    "=== END_NEW_TURNS ===",
  ].join("\n");
  const response = await client.responses.create({ prompt: { id: "pmpt_1", version: "7" }, input });
  assert.equal(response.model, "gpt-5.6-luna");
  assert.deepEqual([response.prompt.id, response.prompt.version], ["pmpt_1", "7"]);
  assert.match(response.output_text, /My bus is number 728\./);
});

test("embeddings come as unit vectors, close for similar texts", async () => {
  const { data, usage } = await client.embeddings.create({
    model: "text-embedding-3-small",
    input: ["The dog walks in the park", "A dog was walking through the park", "Interest rates rose sharply"],
    dimensions: 256,
  });
  const [a, b, c] = data.map((item) => item.embedding);
  const dot = (x, y) => x.reduce((sum, v, i) => sum + v * y[i], 0);
  assert.equal(a.length, 256);
  assert.ok(Math.abs(dot(a, a) - 1) < 1e-4);
  assert.ok(dot(a, b) > dot(a, c) + 0.2, `${dot(a, b)} against ${dot(a, c)}`);
  assert.ok(usage.total_tokens > 0);
});

test("embeddings as numbers equal those in base64", async () => {
  const ask = { model: "text-embedding-3-small", input: "one two", dimensions: 16 };
  const coded = await client.embeddings.create(ask);
  const plain = await client.embeddings.create({ ...ask, encoding_format: "float" });
  assert.deepEqual(Array.from(coded.data[0].embedding), plain.data[0].embedding.map(Math.fround));
});

test("errors become the client's own classes", async () => {
  const failing = (fault) => client.responses.create({ model, input: `Hi [[offline:${fault}]]` });
  await assert.rejects(failing("429"), (e) => e instanceof OpenAI.RateLimitError && e.code === "rate_limit_exceeded");
  await assert.rejects(failing("404"), OpenAI.NotFoundError);
  await assert.rejects(failing("prompt_gone"), (e) => e instanceof OpenAI.NotFoundError && e.param === "prompt");
  await assert.rejects(failing("401"), OpenAI.AuthenticationError);
  await assert.rejects(failing("503"), OpenAI.InternalServerError);
  await assert.rejects(
    client.responses.create({ model, input: "Hi", max_tokens: 5 }),
    (e) => e instanceof OpenAI.BadRequestError && e.code === "unknown_parameter" && e.param === "max_tokens",
  );
});

test("a 429 is tried again", async () => {
  const response = await client.responses.create({ model, input: "Please fail once." }, { maxRetries: 2 });
  assert.equal(response.status, "completed");
});

test("faults inside a stream reach the caller", async () => {
  const read = async (fault) => {
    const stream = await client.responses.create({ model, input: `Tell me [[offline:${fault}]]`, stream: true });
    const kinds = [];
    for await (const event of stream) kinds.push(event.type);
    return kinds;
  };
  await assert.rejects(read("cut"));
  assert.equal((await read("error_event")).at(-1), "error"); // this client hands the event on
  assert.equal((await read("failed")).at(-1), "response.failed");
  assert.equal((await read("end_early")).at(-1), "response.output_text.delta");
  for (const fault of ["crlf", "split", "long_line", "invalid_utf8"]) {
    assert.equal((await read(fault)).at(-1), "response.completed", fault);
  }
});

test("models are listed", async () => {
  const { data } = await client.models.list();
  assert.ok(data.some((m) => m.id === model));
});
