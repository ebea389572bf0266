-- leading comment; with semicolon
create table public.a (x text default ';', "y;z" int);; 
/* block ; /* nested ; */ still ; */ select 1;
select 'it''s; ok', E'a\';b', U&'d\0061t;' from (select 1) q;

do $fn$ begin perform ';'; raise notice '$$;'; end $fn$;
create function public.f(int) returns int language sql as $$ select $1; $$;
create function public.g() returns int language sql begin atomic select case when 1=1 then 2 else 3 end; select 4; end;
select a$b from (select 1 as a$b) q; select 2;
create rule r as on insert to public.a do also (select 1; select 2);
insert into public.a values ('x', 1) -- no; end
;
select $ü$ ; $ü$;
  
-- trailing comment; only
