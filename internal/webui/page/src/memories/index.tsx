import './memories.css';

export { Memories } from './list';
export { Graph } from './graph';
export { Topics } from './topics';
