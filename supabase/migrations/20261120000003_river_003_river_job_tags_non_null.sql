-- River's own migration 003 (line main, from riverqueue/river v0.51.0), in the schema river, which no API exposes.
ALTER TABLE river.river_job ALTER COLUMN tags SET DEFAULT '{}';
UPDATE river.river_job SET tags = '{}' WHERE tags IS NULL;
ALTER TABLE river.river_job ALTER COLUMN tags SET NOT NULL;


insert into river.river_migration (version) values (3);
