package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// addedByTopics times first deltas of servers with and without topics, both with recall by words: where nothing left the
// prompt, and where the question comes back to a topic.
func (e *environment) addedByTopics(ctx context.Context, g *group) (err error) {
	for _, t := range e.talks.asked {
		if err := e.giveTopics(ctx, t); err != nil {
			return err
		}
	}
	f, err := e.startServers(ctx, map[string]string{"TOPICS": "off"}, map[string]string{"TOPICS": "on"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	began := time.Now()
	random := rand.New(rand.NewPCG(3, 3)) //nolint:gosec // it protects nothing
	for _, c := range []struct {
		what string
		ask  func(n int) (conversation, string)
		most *target // of p50
	}{
		{"topics, no return: added", func(int) (conversation, string) { return e.next(), "What is new? Say tokens=1" }, atMost(0.3)},
		{"topics, a return: added", func(n int) (conversation, string) {
			asked := e.talks.asked[n%len(e.talks.asked)]
			return asked.conversation, asked.question(random, false)
		}, atMost(4)},
	} {
		took, err := e.firstDeltasOf(ctx, f[1:], e.recall.firstDeltas, c.ask)
		if err != nil {
			return fmt.Errorf("%s: %w", c.what, err)
		}
		g.addAdded(c.what, took[0], took[1], c.most)
	}
	var named, replies int
	err = e.admin.QueryRow(ctx, `
		select count(*) filter (where m.metadata->'memory' ? 'topic'), count(*) from public.messages m
		 where m.role = 'assistant' and m.created_at >= $1 and (m.metadata->'memory'->>'recall') = 'words'`, began).Scan(&named, &replies)
	g.note("topics: of %d replies that recalled turns, one half by a server with topics, %d were shown one", replies, named)
	return err
}

// giveTopics makes a topic of each segment of a chat.
func (e *environment) giveTopics(ctx context.Context, t talk) error {
	_, err := e.admin.Exec(ctx, `
		with found as (
		  select i.chat_id, i.user_id, i.segment, min(i.seq) as first_seq, max(i.last_seq) as last_seq, min(i.said_at) as began, max(i.said_at) as ended, count(*) as turns,
		         row_number() over (order by i.segment) as number
		    from public.turn_index i where i.chat_id = $1 group by i.chat_id, i.user_id, i.segment),
		made as (
		  insert into public.topics (chat_id, user_id, number, title, summary, summary_tokens, created_at, last_active_at, first_seq, last_seq, message_count)
		  select chat_id, user_id, number, 'Topic ' || number, $2, 100, began, ended, first_seq, last_seq, 2 * turns from found
		      on conflict (chat_id, number) do nothing returning id, number) -- an earlier run's stay
		update public.turn_index i set topic_id = m.id, topic_model = ''
		  from found f join made m using (number) where i.chat_id = f.chat_id and i.segment = f.segment`,
		t.id, summaryText())
	return err
}
