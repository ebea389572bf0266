import { drag } from 'd3-drag';
import { forceCollide, forceLink, forceManyBody, forceSimulation, forceX, forceY, type Simulation, type SimulationLinkDatum, type SimulationNodeDatum } from 'd3-force';
import { select } from 'd3-selection';
import { zoom, zoomIdentity } from 'd3-zoom';

import type { Entity, Relationship } from './types';

export interface Node extends SimulationNodeDatum, Entity { degree: number }
export interface Link extends SimulationLinkDatum<Node> { source: Node; target: Node; said: Relationship }
export interface Shown { nodes: Node[]; links: Link[]; cut: number }

/** More are slow to arrange, and nobody can read them. */
export const MOST = 300;
/** Of more entities than this, only some have their names written until one zooms in. */
const NAMED = 60;
const NEAR = 1.6;
const SIZE = { width: 800, height: 600 };

/** What of a graph is drawn: the entities that are mentioned most, and what is said of two of them. */
export function shown(entities: Entity[], relationships: Relationship[]): Shown {
  const nodes = new Map(entities.slice(0, MOST).map((entity) => [entity.name, { ...entity, degree: 0 } as Node]));
  const links: Link[] = [];
  for (const said of relationships) {
    const source = nodes.get(said.source);
    const target = nodes.get(said.target);
    if (!source || !target) continue;
    source.degree++;
    target.degree++;
    links.push({ source, target, said });
  }
  return { nodes: [...nodes.values()], links, cut: Math.max(0, entities.length - MOST) };
}

export interface Drawing {
  select(name: string): void;
  zoomBy(factor: number): void;
  fit(): void;
  stop(): void;
}

const radius = (node: Node) => 5 + Math.min(9, 2 * Math.sqrt(node.mentions));

/** Draws a graph. Where motion is not wanted it is arranged before it is shown. */
export function draw(svg: SVGSVGElement, { nodes, links }: Shown, onSelect: (name: string) => void): Drawing {
  const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
  const root = select(svg).attr('viewBox', `0 0 ${SIZE.width} ${SIZE.height}`);
  root.selectAll('*').remove();
  const world = root.append('g');
  const lines = world.append('g').selectAll('line').data(links).join('line')
    .attr('class', (link) => (link.said.valid ? 'edge' : 'edge past'));
  const words = world.append('g').selectAll('text').data(links).join('text')
    .attr('class', 'said').text((link) => spoken(link.said.relationship));
  const dots = world.append('g').selectAll<SVGGElement, Node>('g').data(nodes).join('g')
    .attr('class', (node) => `dot ${node.type}`).on('click', (_, node) => onSelect(node.name));
  dots.append('circle').attr('r', radius);
  dots.append('text').attr('y', (node) => radius(node) + 13).text((node) => shorten(node.name));
  dots.append('title').text((node) => `${node.name}, ${node.type}`);

  const place = () => {
    lines.attr('x1', (l) => l.source.x!).attr('y1', (l) => l.source.y!).attr('x2', (l) => l.target.x!).attr('y2', (l) => l.target.y!);
    words.attr('x', (l) => (l.source.x! + l.target.x!) / 2).attr('y', (l) => (l.source.y! + l.target.y!) / 2);
    dots.attr('transform', (node) => `translate(${node.x},${node.y})`);
  };
  const forces = arrange(nodes, links);
  forces.tick(still ? 300 : 120);
  place();
  if (!still) forces.on('tick', place).restart();

  const important = new Set([...nodes].sort((a, b) => b.degree - a.degree).slice(0, NAMED));
  let chosen = '';
  let scale = 1;
  const name = () => {
    const near = new Set(links.filter((l) => l.source.name === chosen || l.target.name === chosen).flatMap((l) => [l.source, l.target]));
    dots.classed('named', (node) => node.name === chosen || near.has(node) || scale >= NEAR || important.has(node))
      .classed('chosen', (node) => node.name === chosen);
    lines.classed('near', (l) => l.source.name === chosen || l.target.name === chosen);
    words.classed('near', (l) => l.source.name === chosen || l.target.name === chosen);
  };
  const zooming = zoom<SVGSVGElement, unknown>().scaleExtent([0.2, 8]).on('zoom', ({ transform }) => {
    world.attr('transform', transform);
    scale = transform.k;
    world.selectAll('text').attr('font-size', 13 / scale); // names stay as large as they are
    name();
  });
  root.call(zooming);
  dots.call(dragging(forces, place, still));

  const fit = () => {
    const [left, right] = bounds(nodes.map((node) => node.x!));
    const [top, bottom] = bounds(nodes.map((node) => node.y!));
    const k = Math.min(2, 0.85 / Math.max((right - left) / SIZE.width, (bottom - top) / SIZE.height, 0.1));
    const middle = zoomIdentity.translate(SIZE.width / 2 - (k * (left + right)) / 2, SIZE.height / 2 - (k * (top + bottom)) / 2).scale(k);
    root.call(zooming.transform, middle);
  };
  fit();
  return {
    select(next) { chosen = next; name(); },
    zoomBy(factor) { root.call(zooming.scaleBy, factor); },
    fit,
    stop() { forces.stop(); },
  };
}

function arrange(nodes: Node[], links: Link[]): Simulation<Node, Link> {
  return forceSimulation(nodes)
    .force('link', forceLink<Node, Link>(links).distance(90))
    .force('apart', forceManyBody().strength(-220).distanceMax(400))
    .force('room', forceCollide<Node>((node) => radius(node) + 16))
    .force('x', forceX(SIZE.width / 2).strength(0.06))
    .force('y', forceY(SIZE.height / 2).strength(0.08))
    .stop();
}

function dragging(forces: Simulation<Node, Link>, place: () => void, still: boolean) {
  return drag<SVGGElement, Node>()
    .on('start', (event) => { if (!still && !event.active) forces.alphaTarget(0.2).restart(); })
    .on('drag', (event, node) => {
      node.fx = node.x = event.x;
      node.fy = node.y = event.y;
      if (still) place();
    })
    .on('end', (event, node) => {
      if (!event.active) forces.alphaTarget(0);
      node.fx = node.fy = null;
    });
}

function bounds(values: number[]): [number, number] {
  return values.length ? [Math.min(...values), Math.max(...values)] : [0, 0];
}

const shorten = (text: string) => ([...text].length > 24 ? [...text].slice(0, 23).join('') + '…' : text);

/** A relationship's name as it is read: lives_in is "lives in". */
export function spoken(relationship: string): string {
  return relationship.replaceAll('_', ' ');
}
