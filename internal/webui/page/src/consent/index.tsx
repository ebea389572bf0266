/** Asks whether another program may sign in as the user. */
export function Consent() {
  return <main id="main" tabIndex={-1}><h1>Connect a program</h1></main>;
}
