import type { components } from '@arcoscribe/throughline';

type Schemas = components['schemas'];

export type Memory = Schemas['LongTermMemory'];
export type Revision = Schemas['MemoryRevision'];
export type Settings = Schemas['MemorySettings'];
export type Graph = Schemas['Graph'];
export type Entity = Schemas['GraphEntity'];
export type Relationship = Schemas['GraphRelationship'];
export type Topic = Schemas['Topic'];
export type TopicMessage = Schemas['TopicMessage'];
