package main

import "context"

const readLeftovers = `
	select (select count(*) from public.message_deltas), (select count(*) from public.messages where status = 'streaming'),
	       (select count(*) from river.river_job where kind in ('fold_brief', 'rebuild_brief') and finalized_at is null),
	       (select count(*) from river.river_job where state in ('discarded', 'cancelled')),
	       (select count(*) from inspect.late_folds),
	       coalesce((select format('such as %s, for %s: %s (%s tokens, %s turns wait); its latest job %s', f.chat_id, f.late_by, f.reason, f.tokens_total,
	                               f.pending_turns, coalesce(f.job_state || ', attempt ' || f.job_attempt || ', ' || f.job_scheduled_at, 'is none'))
	                   from inspect.late_folds f limit 1), ''),
	       (select count(*) from public.conversation_briefs where lease_until is not null)`

func (s *system) leftovers(ctx context.Context) (left leftovers, err error) {
	err = s.admin.QueryRow(ctx, readLeftovers).Scan(&left.Deltas, &left.Streaming, &left.Jobs, &left.Discarded, &left.Due, &left.Example, &left.Leases)
	if err != nil {
		return left, err
	}
	files, err := s.temporaryFiles()
	left.Files = int64(files)
	return left, err
}
