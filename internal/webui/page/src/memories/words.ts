const day = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' });
const minute = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });

export function dayOf(time: string | number): string {
  return day.format(new Date(time));
}

export function minuteOf(time: string | number): string {
  return minute.format(new Date(time));
}

/** Days as a person says them: "6 hours", "2 days". */
export function daysInWords(days: number): string {
  const hours = Math.round(days * 24);
  return hours < 48 ? count(hours, 'hour') : count(Math.round(days), 'day');
}

export function count(n: number, one: string, many = one + 's'): string {
  return `${n.toLocaleString()} ${n === 1 ? one : many}`;
}
