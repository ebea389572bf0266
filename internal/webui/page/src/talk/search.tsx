import { useEffect, useState } from 'preact/hooks';
import type { ComponentChild } from 'preact';
import { sayError, useClient } from '../api';
import type { Schemas } from '../throughline';
import { When } from '../ui/when';

type Result = Schemas['SearchResult'];

/** A search begins when nothing was typed for so many milliseconds. */
const REST = 250;

export function SearchResults({ query }: { query: string }) {
  const { client } = useClient();
  const [results, setResults] = useState<Result[]>();
  const [problem, setProblem] = useState('');

  useEffect(() => {
    const aborted = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const { data } = await client.GET('/v1/search', { params: { query: { q: query, limit: 30 } }, signal: aborted.signal });
        setResults(data.results);
        setProblem('');
      } catch (error) {
        if (!aborted.signal.aborted) setProblem(sayError(error));
      }
    }, REST);
    return () => {
      clearTimeout(timer);
      aborted.abort();
    };
  }, [query]);

  return (
    <>
      {problem && <p role="alert">{problem}</p>}
      <p role="status" class="empty">{results && (results.length === 0 ? 'Nothing was found.' : `${results.length} found`)}</p>
      <ul class="chats">
        {results?.map((result) => (
          <li key={result.message_id}>
            <a href={`/app/chats/${result.chat_id}?message=${result.message_id}`}>
              <bdi class="chat-title">{result.chat_title || 'Untitled'}</bdi>
              <When at={result.created_at} />
              <bdi class="snippet">{marked(result)}</bdi>
            </a>
          </li>
        ))}
      </ul>
    </>
  );
}

/** The snippet with the words that were found. Places are counted in code points. */
function marked({ snippet, highlights }: Result): ComponentChild[] {
  const characters = [...snippet];
  const text = (from: number, to?: number) => characters.slice(from, to).join('');
  let at = 0;
  const parts = highlights.flatMap(({ start, end }) => {
    const before = text(at, start);
    at = end;
    return [before, <mark>{text(start, end)}</mark>];
  });
  return [...parts, text(at)];
}
