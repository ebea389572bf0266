/** One request whose answer may be a stream, on platforms whose fetch can read one and on those whose cannot. */
import type { Api } from './api.js';

export interface StreamRequest {
  method: string;
  url: string;
  headers: Record<string, string>;
  body?: string;
  signal: AbortSignal;
}

/** How a request was answered. */
export interface Answer {
  status: number;
  retryAfter: string | null;
  /** Of an answer that is no stream. */
  body: string;
}

export type OnText = (piece: string) => void;

/**
 * The most characters of one answer that are kept: XMLHttpRequest keeps all of it. A longer one is hung up, and the
 * next request goes on after the text read so far.
 */
const KEPT = 1 << 20;

/** Sends a request. The pieces of a stream are told as they come; it resolves at its end, and rejects where it breaks. */
export function openStream(api: Api, request: StreamRequest, onText: OnText): Promise<Answer> {
  if (api.fetch) return overFetch(api.fetch, request, onText);
  return fetchReadsStreams() ? overFetch(globalThis.fetch, request, onText) : overXhr(request, onText);
}

/** React Native's fetch has no readable body. */
function fetchReadsStreams(): boolean {
  return typeof Response === 'function' && 'body' in Response.prototype;
}

async function overFetch(fetch: Api['fetch'] & {}, { url, ...init }: StreamRequest, onText: OnText): Promise<Answer> {
  const response = await fetch(url, init);
  const { status, headers, body } = response;
  const answer = { status, retryAfter: headers.get('Retry-After'), body: '' };
  if (status !== 200 || !body) return { ...answer, body: await response.text() };
  const reader = body.getReader();
  const decoder = new TextDecoder();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return answer;
    onText(decoder.decode(value, { stream: true }));
  }
}

function overXhr({ method, url, headers, body, signal }: StreamRequest, onText: OnText): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const xhr = new XMLHttpRequest();
    let read = 0;

    function tell(): void {
      if (xhr.status !== 200) return;
      const piece = xhr.responseText.slice(read);
      read += piece.length;
      if (piece) onText(piece);
    }

    function finish(): void {
      const { status } = xhr;
      resolve({ status, retryAfter: xhr.getResponseHeader('Retry-After'), body: status === 200 ? '' : xhr.responseText });
    }

    function attempt(deed: () => void): void {
      try {
        deed();
      } catch (error) {
        xhr.abort();
        reject(error);
      }
    }

    xhr.open(method, url);
    for (const [name, value] of Object.entries(headers)) xhr.setRequestHeader(name, value);
    xhr.onprogress = () =>
      attempt(() => {
        tell();
        if (read < KEPT) return;
        finish();
        xhr.abort();
      });
    xhr.onload = () =>
      attempt(() => {
        tell();
        finish();
      });
    xhr.onerror = xhr.ontimeout = xhr.onabort = () => reject(new TypeError('the connection broke'));
    signal.addEventListener('abort', () => xhr.abort());
    xhr.send(body);
  });
}
