-- A user for a local stack, for `throughline token --user`. It has no password, so no one can sign in as this user.
insert into auth.users (id, aud, role, email, raw_app_meta_data, raw_user_meta_data, created_at, updated_at)
values ('00000000-0000-4000-8000-00000000de30', 'authenticated', 'authenticated', 'demo@example.com', '{}', '{}', now(), now())
on conflict (id) do nothing;

-- The auth server cannot read a user whose token columns are null. A plain Postgres does not have these columns.
do $$
declare
  token_column text;
begin
  for token_column in
    select attname from pg_attribute
     where attrelid = 'auth.users'::regclass and not attisdropped
       and attname in ('confirmation_token', 'recovery_token', 'email_change', 'email_change_token_new')
  loop
    execute format('update auth.users set %1$I = %2$L where id = %3$L and %1$I is null',
                   token_column, '', '00000000-0000-4000-8000-00000000de30');
  end loop;
end
$$;
