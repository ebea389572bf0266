-- name: RolesNotGranted :one
-- The roles that statements act as and that the connecting role is no member of.
select coalesce(array_agg(rolname::text order by rolname), '{}')::text[]
  from pg_catalog.pg_roles
 where rolname in ('throughline_app', 'throughline_worker')
   and not pg_catalog.pg_has_role(current_user, oid, 'member');
