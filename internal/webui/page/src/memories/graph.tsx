import { useEffect, useMemo, useRef, useState } from 'preact/hooks';

import { useClient } from '../api';
import { Icon, type IconName } from '../ui/icon';
import { useTitle } from '../ui/title';
import { called, draw, MOST, shown, spoken, USER, type Drawing } from './drawing';
import { useLoaded } from './hooks';
import { Failure, PageHead } from './parts';
import { Search } from './search';
import { count, dayOf } from './words';
import { you } from './you';
import type { Entity, Graph as Found, Relationship } from './types';

const kinds = ['person', 'organization', 'place', 'project', 'product', 'tool', 'concept', 'condition', 'event', 'other'] as const;

type Filter = { q: string; type: '' | (typeof kinds)[number]; as_of: string };

/** /app/memories/graph: what the memories are about, drawn, and the same as a list. */
export function Graph() {
  const { client } = useClient();
  const [filter, setFilter] = useState<Filter>({ q: '', type: '', as_of: '' });
  const [chosen, setChosen] = useState('');
  useTitle('Graph');
  const { q, type, as_of } = filter;
  const query = { ...(q && { q }), ...(type && { type }), ...(as_of && { as_of }) };
  const { value, error, loading, reload } = useLoaded(JSON.stringify(query), async (signal) => {
    const { data } = await client.GET('/v1/graph', { params: { query }, signal });
    return whole(data as Found);
  });
  return (
    <main id="main" tabIndex={-1} class="memories graph">
      <PageHead shown="Graph" />
      <Filters filter={filter} change={(change) => { setChosen(''); setFilter({ ...filter, ...change }); }} />
      <Failure error={error} />
      {error ? <button type="button" onClick={reload}>Try again</button> : null}
      {!value && loading && <p class="quiet">Loading …</p>}
      {value && value.entities.length === 0 && <p class="quiet">{nothing(query)}</p>}
      {value && value.entities.length > 0 && (
        <>
          <Picture found={value} chosen={chosen} choose={setChosen} />
          <List found={value} chosen={chosen} choose={setChosen} />
        </>
      )}
    </main>
  );
}

function nothing(query: object): string {
  return Object.keys(query).length
    ? 'The graph has nothing that fits.'
    : 'The graph is empty. It grows with your memories; what you write yourself is added within half an hour.';
}

/** The answer, with an entity for each name that its relationships have. */
function whole(found: Found): Found {
  const known = new Set(found.entities.map((entity) => entity.name));
  const names = new Set(found.relationships.flatMap(({ source, target }) => [source, target]));
  const missing = [...names].filter((name) => !known.has(name)).map((name): Entity => ({ name, type: 'other', mentions: 0 }));
  return { ...found, entities: [...found.entities, ...missing] };
}

function Filters({ filter, change }: { filter: Filter; change: (change: Partial<Filter>) => void }) {
  const { q, type, as_of } = filter;
  return (
    <Search label="Graph" asks="Ask, such as “what tools do I like”" q={q} search={(words) => change({ q: words })}
      active={[type, as_of].filter(Boolean).length} clear={() => change({ type: '', as_of: '' })}>
      <label>Kind
        <select value={type} onChange={(event) => change({ type: event.currentTarget.value as Filter['type'] })}>
          <option value="">All</option>
          {kinds.map((kind) => <option key={kind} value={kind}>{kind}</option>)}
        </select>
      </label>
      <label>True on<input type="date" value={as_of} onChange={(event) => change({ as_of: event.currentTarget.value })} /></label>
    </Search>
  );
}

function Picture({ found, chosen, choose }: { found: Found; chosen: string; choose: (name: string) => void }) {
  const svg = useRef<SVGSVGElement>(null);
  const drawing = useRef<Drawing | null>(null);
  const part = useMemo(() => shown(found.entities, found.relationships), [found]);
  useEffect(() => {
    drawing.current = draw(svg.current!, part, choose);
    return () => drawing.current!.stop();
  }, [part]);
  useEffect(() => drawing.current?.select(chosen), [part, chosen]);
  const types = Map.groupBy(part.nodes, (node) => node.type);
  const tool = (name: string, icon: IconName, use: (drawing: Drawing) => void) => (
    <button type="button" class="square" aria-label={name} title={name} onClick={() => drawing.current && use(drawing.current)}><Icon name={icon} /></button>
  );
  return (
    <figure>
      <div class="canvas">
        <svg
          ref={svg}
          role="img"
          aria-label={`A drawing of ${count(part.nodes.length, 'entity', 'entities')} and ${count(part.links.length, 'relationship')}. The list has the same.`}
        />
        <div class="tools">
          {tool('Zoom in', 'new', (drawing) => drawing.zoomBy(1.5))}
          {tool('Zoom out', 'less', (drawing) => drawing.zoomBy(1 / 1.5))}
          {tool('Fit', 'fit', (drawing) => drawing.fit())}
        </div>
      </div>
      <figcaption>
        <ul class="legend">
          {[...types].map(([type, nodes]) => <li key={type} class={type}>{type} {nodes.length}</li>)}
          {part.links.some(({ said }) => !said.valid) && <li class="past">no longer true</li>}
        </ul>
        {part.cut > 0 && <p>Drawn are the {MOST} that are mentioned most; {part.cut} more are in the list. Choose a kind to see those.</p>}
        {found.relationships.length >= 500 && <p>The server tells 500 relationships at most. Ask a question or choose a kind to see the others.</p>}
      </figcaption>
    </figure>
  );
}

function List({ found, chosen, choose }: { found: Found; chosen: string; choose: (name: string) => void }) {
  const list = useRef<HTMLUListElement>(null);
  useEffect(() => {
    if (chosen) list.current?.querySelector('[aria-expanded=true]')?.scrollIntoView({ block: 'nearest' });
  }, [chosen]);
  return (
    <section aria-labelledby="entities" class="entities">
      <h2 id="entities">Entities <span class="quiet">{found.entities.length}</span></h2>
      <ul ref={list}>
        {found.entities.map((entity) => (
          <li key={entity.name}>
            <button type="button" class="entity" aria-expanded={entity.name === chosen} onClick={() => choose(entity.name === chosen ? '' : entity.name)}>
              <span dir="auto">{called(entity.name)}</span>{' '}
              <span class="quiet">{entity.type}{entity.mentions > 0 && `, in ${count(entity.mentions, 'memory', 'memories')}`}</span>
            </button>
            {entity.name === chosen && <About name={entity.name} said={found.relationships} />}
          </li>
        ))}
      </ul>
    </section>
  );
}

/** The relationships of an entity, and the memories that speak of it. */
function About({ name, said }: { name: string; said: Relationship[] }) {
  const { client } = useClient();
  const { value, error } = useLoaded(name, async (signal) => {
    const { data } = await client.GET('/v1/memories', { params: { query: { q: name, limit: 20 } }, signal });
    return data.memories;
  });
  const own = said.filter(({ source, target }) => source === name || target === name);
  return (
    <div class="about">
      {own.length > 0 && (
        <ul>
          {own.map((r) => (
            <li key={`${r.source} ${r.relationship} ${r.target} ${r.valid_from}`}>
              <a href={`/app/memories?id=${r.memory_id}`} dir="auto">{you(`${r.source} ${spoken(r.relationship)} ${r.target === USER ? 'you' : r.target}`)}</a>
              {!r.valid && <span class="quiet"> {r.valid_to ? `until ${dayOf(r.valid_to)}` : 'no longer'}</span>}
            </li>
          ))}
        </ul>
      )}
      {name !== USER && (
        <>
          <h3>Memories about it</h3>
          <Failure error={error} />
          {value?.length === 0 && <p class="quiet">None has this word now.</p>}
          <ul>{value?.map((memory) => <li key={memory.id}><a href={`/app/memories?id=${memory.id}`} dir="auto">{you(memory.content)}</a></li>)}</ul>
        </>
      )}
    </div>
  );
}
