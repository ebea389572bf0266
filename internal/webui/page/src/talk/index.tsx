/** The list of chats, and one of them. */
export function Talk({ id }: { id?: string }) {
  return <main id="main" tabIndex={-1}><h1>{id ? 'Chat' : 'Talk'}</h1></main>;
}
