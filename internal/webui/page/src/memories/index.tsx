/** What the user is remembered for in all chats. */
export function Memories() {
  return <main id="main" tabIndex={-1}><h1>Memories</h1></main>;
}

/** The same as a graph. */
export function Graph() {
  return <main id="main" tabIndex={-1}><h1>Graph</h1></main>;
}

/** What a chat was about. */
export function Topics({ id }: { id: string }) {
  return <main id="main" tabIndex={-1}><h1>Topics</h1><p>{id}</p></main>;
}
