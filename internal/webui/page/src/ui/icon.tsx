const paths = {
  away: 'M4 5h16v4H4zM6 9v10h12V9M10 13h4',
  again: 'M19 12a7 7 0 1 1-2.200-5.100M19 4v4h-4',
  back: 'M15 5l-7 7 7 7',
  call: 'M13 3L5 14h6l-1 7 8-11h-6z',
  chat: 'M5 5h14v11H11l-4 4v-4H5z',
  close: 'M6 6l12 12M18 6L6 18',
  copy: 'M9 9h10v11H9zM5 15V4h10',
  done: 'M5 12.500l4.500 4.500L19 7.500',
  edit: 'M4 20l1-4L16 5l3 3L8 19zM13.5 7.5l3 3',
  file: 'M6 3h8l4 4v14H6zM14 3v4h4',
  less: 'M5 12h14',
  merge: 'M6 4v4c0 4 6 4 6 8v4M18 4v4c0 4-6 4-6 8',
  more: 'M5 12h.01M12 12h.01M19 12h.01',
  new: 'M12 5v14M5 12h14',
  next: 'M9 5l7 7-7 7',
  pin: 'M9 3h6l-1 6 3 4H7l3-4zM12 13v8',
  poor: 'M7 14V4h9.5c1 0 1.8.7 2 1.7l1 5.6c.2 1.4-.8 2.7-2.2 2.7H14l.8 4.2c.2 1.2-.7 2.3-1.9 2.3L9 14zM3.500 4v10',
  filter: 'M4 7h16M7 12h10M10 17h4',
  fit: 'M4 9V4h5M15 4h5v5M20 15v5h-5M9 20H4v-5',
  good: 'M7 10v10h9.500c1 0 1.800-.7 2-1.700l1-5.600c.2-1.400-.8-2.700-2.200-2.700H14l.8-4.200c.2-1.200-.7-2.300-1.900-2.300L9 10zM3.500 20V10',
  search: 'M10.500 17a6.500 6.500 0 1 0 0-13 6.500 6.500 0 0 0 0 13zM15.500 15.500L20 20',
  send: 'M12 20V5M6 11l6-6 6 6',
  stop: 'M7 7h10v10H7z',
  theme: 'M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18',
  trash: 'M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13',
  leave: 'M14 4H5v16h9M10 12h10M17 9l3 3-3 3',
  why: 'M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM9.600 9.500a2.500 2.500 0 1 1 3.600 2.300c-.8.4-1.200 1-1.200 1.900M12 16.900v.1',
} as const;

export type IconName = keyof typeof paths;

/** A drawing beside or in place of words. What it means is said by what it stands in. */
export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" width="20" height="20" aria-hidden="true" focusable="false">
      <path d={paths[name]} fill={name === 'stop' ? 'currentColor' : undefined} stroke-width={name === 'more' ? 3 : undefined} />
    </svg>
  );
}
