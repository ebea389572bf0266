-- The graph of what memories are about: entities, which memory mentions which, and what memories say of two of them.
--
-- Of each thing that is said of two entities (a triple) one row is open, however many memories say it: also_said_by names
-- the others. The row is open as long as one of them is not superseded, and passes to the next when its memory goes. An
-- entity goes with its last mention. All words in these tables are words of the memories that they come from, and go with
-- those, in the same transaction.
--
-- Writers hold the row of memory_users, as everybody who changes memories; so two changes of a user's graph never meet.

-- Whether a name means the user: graph.IsUser in Go; a test compares the two.
create function throughline.is_user_name(name text) returns boolean
language sql immutable security invoker set search_path = '' as $$
  select throughline.folded(name) = any('{user,the user,i,me,myself,nutzer,der nutzer,nutzerin,die nutzerin,utilisateur,l utilisateur,utilisatrice,
    l utilisatrice,usuario,el usuario,usuaria,la usuaria,usuário,o usuário,usuária,a usuária,utente,l utente}'::text[])
$$;

-- Whether a folded text has a folded name in it, as words of its own where words are spaced.
create function throughline.has_name(words text, name text) returns boolean
language sql immutable security invoker set search_path = '' as $$
  select strpos(' ' || words || ' ', ' ' || name || ' ') > 0
      or name ~ '[\u0E00-\u0EFF\u1000-\u109F\u1780-\u17FF\u3040-\u30FF\u3400-\u4DBF\u4E00-\u9FFF\uAC00-\uD7AF\uF900-\uFAFF\uFF66-\uFF9F]'
         and strpos(words, name) > 0
$$;

-- A moment that a model wrote; null for any other text, and for one that no column takes.
create function throughline.moment(written text) returns timestamptz
language plpgsql immutable security invoker set search_path = '' set timezone = 'UTC' as $$
begin
  return (select w.at from (select case when written ~ '^\d{4}-\d\d-\d\d' then written::timestamptz end) w (at)
           where w.at >= '0001-01-01 00:00Z' and w.at < '10000-01-01 00:00Z');
exception
  when others then return null;
end
$$;

-- Decides which memory holds a relationship and whether it is open, without counting on one of them. Does nothing where
-- no other says it: then the row goes with its memory.
create function throughline.settle_relationship(row_id uuid, without uuid) returns void
language plpgsql volatile security invoker set search_path = '' as $$
declare
  r record;
  holder record;
  twin uuid;
begin
  select * into r from public.memory_relationships where id = row_id for no key update;
  select m.id, greatest(case when m.status = 'superseded' then coalesce(m.valid_to, m.retracted_at, now()) else m.valid_to end, r.valid_from) as closed,
         coalesce(case when m.status = 'superseded' then coalesce(m.valid_to, m.retracted_at, now()) else m.valid_to end, 'infinity') as until
    into holder
    from public.memories m
   where m.user_id = r.user_id and (m.id = r.memory_id or m.id = any(r.also_said_by)) and m.id is distinct from without
   order by until desc, m.status = 'active' desc, m.id = r.memory_id desc, m.id
   limit 1;
  if not found then
    return;
  end if;
  if holder.until = 'infinity' then
    holder.closed := null;
    if r.valid_to is not null then
      -- It was said again meanwhile: this row stays as it was, and the memory says the open one, too.
      select o.id into twin from public.memory_relationships o
       where o.user_id = r.user_id and o.source_entity_id = r.source_entity_id and o.relationship = r.relationship
         and o.target_entity_id = r.target_entity_id and o.valid_to is null and o.id <> r.id;
      if found then
        update public.memory_relationships o set also_said_by = o.also_said_by || holder.id
         where o.id = twin and o.memory_id <> holder.id and holder.id <> all (o.also_said_by);
        return;
      end if;
    end if;
  end if;
  update public.memory_relationships n
     set memory_id = holder.id, valid_to = holder.closed,
         also_said_by = array(select distinct s.id from unnest(r.also_said_by || r.memory_id) s (id)
                               where s.id <> holder.id and s.id is distinct from without order by s.id)
   where n.id = r.id;
end
$$;

-- Decides on all relationships that a memory says.
create function throughline.settle_relationships(memory uuid, owner uuid, without uuid) returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  perform throughline.settle_relationship(r.id, without)
     from (select s.id from public.memory_relationships s
            where s.user_id = owner and (s.memory_id = memory or memory = any(s.also_said_by)) order by s.id) r;
end
$$;

-- Adds what a memory says to the graph: entities [{"name", "type"}] and relationships [{"source", "relationship", "target",
-- "valid_from"?}], at most 50 of each. Only names count that are in the memory's words, beside the user's: the graph must
-- not know more than its memories. Existing rows stay as they are, so this may be called again, as after a merge.
-- Does nothing for a memory that is not the user's in the claims. SECURITY DEFINER: no role may write these tables.
create function throughline.link_memory(memory uuid, entities jsonb, relationships jsonb) returns void
language plpgsql volatile security definer set search_path = '' as $$
declare
  asking constant uuid := (select throughline.uid());
  said record;
  words text;
begin
  select m.content, m.valid_from into said from public.memories m where m.id = memory and m.user_id = asking for no key update;
  if not found then
    return;
  end if;
  words := throughline.folded(said.content);
  with triples as (
    select btrim(regexp_replace(r.value ->> 'source', '\s+', ' ', 'g')) as source,
           btrim(regexp_replace(r.value ->> 'target', '\s+', ' ', 'g')) as target,
           rtrim(left(btrim(regexp_replace(lower(r.value ->> 'relationship'), '[^[:alnum:]]+', '_', 'g'), '_'), 40), '_') as verb,
           throughline.moment(r.value ->> 'valid_from') as since
      from jsonb_array_elements(case jsonb_typeof(relationships) when 'array' then relationships else '[]' end) with ordinality r (value, place)
     where r.place <= 50),
  named as (
    select btrim(regexp_replace(e.value ->> 'name', '\s+', ' ', 'g')) as name, lower(e.value ->> 'type') as type, e.place
      from jsonb_array_elements(case jsonb_typeof(entities) when 'array' then entities else '[]' end) with ordinality e (value, place)
     where e.place <= 50
     union all
    select s.name, null, 100 from triples t cross join lateral (values (t.source), (t.target)) s (name) where t.verb <> ''),
  keyed as (
    select distinct on (case when k.is_user then 'user' else k.key end)
           case when k.is_user then 'user' else k.key end as key, k.is_user, case when k.is_user then 'User' else n.name end as name,
           case when k.is_user then 'person'
                when n.type in ('person', 'organization', 'place', 'project', 'product', 'tool', 'concept', 'condition', 'event') then n.type
                else 'other' end as type
      from named n
     cross join lateral (select throughline.folded(n.name) as key, throughline.is_user_name(n.name) as is_user) k
     where char_length(n.name) <= 100 and k.key ~ '\S'
       and (k.is_user or throughline.has_name(words, k.key))
     order by case when k.is_user then 'user' else k.key end, n.place),
  written as (
    insert into public.memory_entities as e (user_id, name, entity_type, is_user)
    select asking, k.name, k.type, k.is_user from keyed k order by k.key
    on conflict (user_id, name_key) do update
       set entity_type = case when e.entity_type = 'other' then excluded.entity_type else e.entity_type end,
           aliases = case when excluded.name = e.name or excluded.name = any(e.aliases) or cardinality(e.aliases) >= 10 then e.aliases
                          else e.aliases || excluded.name end
    returning e.id, e.name_key),
  mentioned as (
    insert into public.memory_mentions (memory_id, entity_id, user_id) select memory, w.id, asking from written w order by w.id
    on conflict do nothing),
  wanted as (
    select s.id as source, t.verb, g.id as target, coalesce(min(t.since), said.valid_from) as since
      from triples t
      join written s on s.name_key = case when throughline.is_user_name(t.source) then 'user' else throughline.folded(t.source) end
      join written g on g.name_key = case when throughline.is_user_name(t.target) then 'user' else throughline.folded(t.target) end
     where t.verb <> '' and s.id <> g.id
     group by s.id, t.verb, g.id)
  insert into public.memory_relationships as r (user_id, source_entity_id, target_entity_id, relationship, valid_from, memory_id)
  select asking, w.source, w.target, w.verb, w.since, memory
    from wanted w
   where not exists (select from public.memory_relationships o
                      where o.user_id = asking and o.source_entity_id = w.source and o.relationship = w.verb and o.target_entity_id = w.target
                        and (o.memory_id = memory or memory = any(o.also_said_by)))
   order by w.source, w.verb, w.target
  on conflict (source_entity_id, relationship, target_entity_id) where valid_to is null do update
     set also_said_by = r.also_said_by || excluded.memory_id, valid_from = least(r.valid_from, excluded.valid_from);

  perform throughline.settle_relationships(memory, asking, null);
  update public.memories m set graph_version = m.version where m.id = memory;
end
$$;

-- Before a memory is deleted, what another says as well passes to that one; the rest goes with it.
-- SECURITY DEFINER: the auth server deletes accounts.
create function throughline.hand_over() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform throughline.settle_relationship(r.id, old.id)
     from (select s.id from public.memory_relationships s where s.memory_id = old.id and s.also_said_by <> '{}' order by s.id) r;
  return old;
end
$$;

create trigger memories_hand_over before delete on public.memories for each row execute function throughline.hand_over();
