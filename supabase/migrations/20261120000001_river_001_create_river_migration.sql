-- River's own migration 001 (line main, from riverqueue/river v0.51.0), in the schema river, which no API exposes.
create schema if not exists river;
revoke all on schema river from public, anon, authenticated;

CREATE TABLE river.river_migration(
  id bigserial PRIMARY KEY,
  created_at timestamptz NOT NULL DEFAULT NOW(),
  version bigint NOT NULL,
  CONSTRAINT version CHECK (version >= 1)
);

CREATE UNIQUE INDEX ON river.river_migration USING btree(version);

insert into river.river_migration (version) values (1);
