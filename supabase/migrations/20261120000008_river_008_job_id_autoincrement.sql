-- River's own migration 008 (line main, from riverqueue/river v0.51.0), in the schema river, which no API exposes.
-- No-op. Postgres sequences already prevent automatically generated job IDs
-- from being reused.
SELECT 1;


insert into river.river_migration (line, version) values ('main', 8);
