import { drag } from 'd3-drag';
import {
  forceCollide, forceLink, forceManyBody, forceSimulation, forceX, forceY,
  type Simulation, type SimulationLinkDatum, type SimulationNodeDatum,
} from 'd3-force';
import { select } from 'd3-selection';
import { zoom, zoomIdentity } from 'd3-zoom';

import type { Entity, Relationship } from './types';

export interface Node extends SimulationNodeDatum, Entity { degree: number }
export interface Link extends SimulationLinkDatum<Node> { source: Node; target: Node; said: Relationship }
export interface Shown { nodes: Node[]; links: Link[]; cut: number }

/** More are slow to arrange, and no one can read them. */
export const MOST = 300;
const LETTERS = 13; // the height of a name on the screen, at any zoom

/** The part of a graph to draw: the entities that are mentioned most, and the relationships of two of them. */
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
const touches = (link: Link, name: string) => link.source.name === name || link.target.name === name;

/** Draws a graph. Where motion is not wanted it is arranged before it is shown. */
export function draw(svg: SVGSVGElement, { nodes, links }: Shown, onSelect: (name: string) => void): Drawing {
  const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
  const root = select(svg);
  root.selectAll('*').remove();
  const world = root.append('g');
  const lines = world.append('g').selectAll('line').data(links).join('line')
    .attr('class', (link) => (link.said.valid ? 'edge' : 'edge past'));
  const words = world.append('g').selectAll('text').data(links).join('text')
    .attr('class', 'said').text((link) => spoken(link.said.relationship));
  const dots = world.append('g').selectAll<SVGGElement, Node>('g').data(nodes).join('g')
    .attr('class', (node) => `dot ${node.type}`).on('click', (_, node) => onSelect(node.name));
  dots.append('circle').attr('r', radius);
  const names = world.append('g').selectAll<SVGTextElement, Node>('text').data(nodes).join('text') // above all dots
    .attr('class', 'name').attr('font-size', LETTERS).text((node) => shorten(node.name));
  dots.append('title').text((node) => `${node.name}, ${node.type}`);
  const widths = new Map(nodes.map((node, i) => [node, names.nodes()[i].getComputedTextLength()]));

  let chosen = '';
  let scale = 1;
  const name = () => {
    const near = new Set(links.filter((link) => touches(link, chosen)).flatMap((link) => [link.source, link.target]));
    const first = (node: Node) => (node.name === chosen ? 2e9 : near.has(node) ? 1e9 : 0) + node.degree * 1e3 + node.mentions;
    const named = withRoom([...nodes].sort((a, b) => first(b) - first(a)), (node) => {
      const half = widths.get(node)! / 2 + 3;
      const middle = node.x! * scale;
      const top = (node.y! + radius(node)) * scale;
      return [middle - half, top, middle + half, top + LETTERS + 5];
    });
    names.classed('named', (node) => named.has(node));
    dots.classed('chosen', (node) => node.name === chosen);
    lines.classed('near', (link) => touches(link, chosen));
    words.classed('near', (link) => touches(link, chosen));
  };
  const place = () => {
    lines.attr('x1', (l) => l.source.x!).attr('y1', (l) => l.source.y!).attr('x2', (l) => l.target.x!).attr('y2', (l) => l.target.y!);
    words.attr('x', (l) => (l.source.x! + l.target.x!) / 2).attr('y', (l) => (l.source.y! + l.target.y!) / 2);
    dots.attr('transform', (node) => `translate(${node.x},${node.y})`);
    names.attr('transform', (node) => `translate(${node.x},${node.y})`);
  };
  const zooming = zoom<SVGSVGElement, unknown>().scaleExtent([0.1, 8]).extent(() => [[0, 0], [svg.clientWidth, svg.clientHeight]]);
  zooming.on('zoom', ({ transform }) => {
    world.attr('transform', transform);
    scale = transform.k;
    words.attr('font-size', LETTERS / scale);
    names.attr('font-size', LETTERS / scale).attr('y', (node) => radius(node) + (LETTERS + 2) / scale);
    name();
  });
  const fit = () => {
    const { clientWidth: width, clientHeight: height } = svg;
    const [left, right] = bounds(nodes.map((node) => node.x!));
    const [top, bottom] = bounds(nodes.map((node) => node.y!));
    const k = Math.min(1.5, (width - 110) / (right - left || 1), (height - 80) / (bottom - top || 1));
    root.call(zooming.transform, zoomIdentity.translate(width / 2 - (k * (left + right)) / 2, height / 2 - (k * (top + bottom)) / 2).scale(k));
  };

  const forces = arrange(nodes, links);
  forces.tick(still ? 300 : 120);
  place();
  if (!still) forces.on('tick', place).on('end', name).restart(); // names that come and go while all moves are unrest
  root.call(zooming);
  dots.call(dragging(forces, place, still));
  const resized = new ResizeObserver(fit); // and once at the beginning
  resized.observe(svg);
  return {
    select(next) { chosen = next; name(); },
    zoomBy(factor) { root.call(zooming.scaleBy, factor); },
    fit,
    stop() {
      forces.stop();
      resized.disconnect();
    },
  };
}

type Box = [left: number, top: number, right: number, bottom: number];

/** The nodes whose names do not cover one of an earlier node. */
function withRoom(nodes: Node[], boxOf: (node: Node) => Box): Set<Node> {
  const taken: Box[] = [];
  return new Set(nodes.filter((node) => {
    const box = boxOf(node);
    const free = !taken.some((other) => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1]);
    if (free) taken.push(box);
    return free;
  }));
}

function arrange(nodes: Node[], links: Link[]): Simulation<Node, Link> {
  return forceSimulation(nodes)
    .force('link', forceLink<Node, Link>(links).distance(({ source, target }) => 70 + 6 * Math.sqrt(Math.max(source.degree, target.degree))))
    .force('apart', forceManyBody().strength(-220).distanceMax(400))
    .force('room', forceCollide<Node>((node) => radius(node) + 16))
    .force('x', forceX(0).strength(0.06))
    .force('y', forceY(0).strength(0.07))
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
