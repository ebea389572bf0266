const clock = new Intl.DateTimeFormat(undefined, { hour: 'numeric', minute: '2-digit' });
const day = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });
const date = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', year: 'numeric' });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'short' });

/** A time, as short as it can be understood today. */
export function When({ at }: { at: string }) {
  const then = new Date(at);
  const now = new Date();
  const sameYear = then.getFullYear() === now.getFullYear();
  const format = then.toDateString() === now.toDateString() ? clock : sameYear ? day : date;
  return <time dateTime={at} title={full.format(then)}>{format.format(then)}</time>;
}
