import { useLocation } from 'preact-iso';
import { useEffect, useState } from 'preact/hooks';

import { useClient } from '../api';
import { useRefresh } from '../changes';

const MOST = 99;

/** In the bar: how many memories wait for the user to decide. */
export function InboxCount() {
  const { client } = useClient();
  const { path } = useLocation();
  const [waiting, setWaiting] = useState(0);
  const read = () => void client.GET('/v1/memories', { params: { query: { status: 'inbox', limit: MOST + 1 } } })
    .then(({ data }) => setWaiting(data.memories.length), () => {}); // what fails is said where memories are shown
  useRefresh(read, [path]);
  useEffect(read, [path]);
  if (!waiting) return null;
  return <span class="count">{waiting > MOST ? `${MOST}+` : waiting}<span class="unseen"> to decide</span></span>;
}
