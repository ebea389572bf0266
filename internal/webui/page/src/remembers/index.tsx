/** What the memory of a chat holds. */
export function Remembers({ id }: { id: string }) {
  return <main id="main" tabIndex={-1}><h1>What it remembers</h1><p>{id}</p></main>;
}
