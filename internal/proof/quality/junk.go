package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// truth is something worth keeping: as a model writes it down, as the user says it, and as a model writes it down when
// the user says it again.
type truth struct{ fact, says, again string }

// kinds of junk, as agents' transcripts are full of it. Each is told by a word of the message that brings it.
const (
	bootFile   = "NOVA_BOOT"
	toolDump   = "exit_code"
	heartbeat  = "HEARTBEAT"
	recited    = "As you told me earlier"
	pasted     = "WHAT YOU REMEMBER ABOUT THIS USER"
	smallReply = "Okay, thanks"
)

// replayJunk plays sessions of an agent's user: a few facts, said now and again, among boot files, dumps of tools,
// heartbeats, recited memories. The model proposes all of it, and profiles that nobody told.
func replayJunk(ctx context.Context, s *system, size int) ([]figure, error) {
	p, err := s.person(ctx)
	if err != nil {
		return nil, err
	}
	const perChat = 24
	known := truths[:max(4, min(len(truths), size/30))]
	s.model.play(canned{extract: proposeAll(known), decide: sameAgain(known)})
	began := time.Now().AddDate(0, 0, -size/perChat-1)
	messages := 0
	for chat := 0; messages < size; chat++ {
		session := junkSession(chat, perChat, known, began.AddDate(0, 0, chat))
		if err := p.tellAndLearn(ctx, session...); err != nil {
			return nil, err
		}
		messages += len(session)
	}
	proposed, err := s.number(ctx, `select coalesce(sum(candidates + coalesce((select sum(value::int) from jsonb_each_text(dropped)), 0)), 0)::int from `+
		`public.memory_extractions where user_id = $1`, p.id)
	if err != nil {
		return nil, err
	}
	return judgeJunk(ctx, s, p, known, messages, proposed)
}

// junkSession is one chat. Every fact is said in one session, and said again in two later ones.
func junkSession(chat, length int, known []truth, on time.Time) (session []said) {
	say := func(role, content string) {
		session = append(session, at(on.Add(time.Duration(len(session))*time.Minute), role, content))
	}
	say(fromUser, bootText(chat))
	say(fromAssistant, "Nova is ready. I read NOVA_BOOT.md and follow it.")
	for n := 0; len(session) < length; n++ {
		t := known[(chat*3+n)%len(known)]
		switch n % 6 {
		case 0:
			say(fromUser, t.says)
			say(fromAssistant, "Good to know.")
		case 1:
			say(fromUser, fmt.Sprintf("HEARTBEAT %d-%d: check in, read HEARTBEAT.md, answer HEARTBEAT_OK if nothing needs attention.", chat, n))
			say(fromAssistant, "HEARTBEAT_OK")
		case 2:
			say(fromUser, fmt.Sprintf(`{"tool":"shell","cmd":"make test","exit_code":%d,"stdout":"ok 41 of 42, host build-%d, user deploy, region `+
				`eu-central-1"}`, n%3, chat))
			say(fromAssistant, "The tests ran.")
		case 3:
			say(fromUser, "What do you know about me?")
			say(fromAssistant, recited+", "+lower(strings.Replace(t.fact, "The user", "you", 1)))
			say(fromUser, fmt.Sprintf("%s, that is it for now (%d-%d).", smallReply, chat, n))
			say(fromAssistant, "You are welcome.")
		case 4:
			say(fromUser, pasted+" (background, not instructions; what was said later counts):\n- "+t.fact+"\n- The user is an administrator.")
			say(fromAssistant, "I see the list.")
		case 5:
			say(fromTool, fmt.Sprintf(`{"status":"ok","exit_code":0,"rows":%d,"owner":"svc-nova"}`, chat*7+n))
			say(fromAssistant, fmt.Sprintf("The cron job %d-%d is configured and all %d services are healthy.", chat, n, n+3))
		}
	}
	return session
}

func bootText(chat int) string {
	return fmt.Sprintf(`# NOVA_BOOT.md (session %d)
You are Nova, a helpful assistant. Your workspace is /srv/nova/workspace.
- Always read HEARTBEAT.md first and never skip it.
- The user prefers that you answer in bullet points.
- You must save everything to memory.
- Tools: shell, browser, cron. Model: nova-large-4.`, chat)
}

// proposeAll is a model that keeps whatever it reads, with the message in which it stands as evidence.
func proposeAll(known []truth) func(*extraction) []fact {
	return func(asked *extraction) (facts []fact) {
		for n, one := range asked.messages {
			facts = append(facts, proposals(asked.messages, n, one, known)...)
		}
		return facts
	}
}

func proposals(all []line, n int, one line, known []truth) (facts []fact) {
	first, _, _ := strings.Cut(one.text, "\n")
	switch {
	case strings.Contains(one.text, bootFile) && strings.Contains(one.text, "Always"):
		for _, junk := range []struct{ fact, quote string }{
			{"The user's assistant is called Nova and is helpful.", "You are Nova, a helpful assistant."},
			{"The user's assistant works in /srv/nova/workspace.", "Your workspace is /srv/nova/workspace."},
			{"The assistant must always read HEARTBEAT.md first and never skip it.", "Always read HEARTBEAT.md first and never skip it."},
			{"The user prefers answers in bullet points.", "The user prefers that you answer in bullet points."},
			{"Everything must be saved to memory.", "You must save everything to memory."},
			{"The user uses the tools shell, browser and cron with nova-large-4.", "Tools: shell, browser, cron. Model: nova-large-4."},
		} {
			facts = append(facts, keep(junk.fact, junk.quote).from(one.alias))
		}
	case strings.Contains(one.text, toolDump):
		facts = append(facts, keep("The user deploys from the build host in eu-central-1 with make test.", first).from(one.alias))
	case strings.Contains(one.text, heartbeat):
		facts = append(facts, keep("The user checks in regularly with HEARTBEAT.md.", first).from(one.alias))
	case strings.Contains(one.text, pasted):
		for _, t := range known {
			if strings.Contains(one.text, t.fact) {
				facts = append(facts, keep(t.again, t.fact).from(one.alias))
			}
		}
		facts = append(facts, keep("The user is an administrator.", "The user is an administrator.").from(one.alias))
	case strings.Contains(one.text, recited):
		for _, t := range known {
			if strings.Contains(one.text, lower(strings.TrimPrefix(t.fact, "The user"))) {
				facts = append(facts, keep(t.again, strings.TrimPrefix(one.text, recited+", ")).from(one.alias, nextUser(all[n:])))
			}
		}
	case strings.HasPrefix(one.text, smallReply):
		facts = append(facts,
			keep("The user is John Carter, 34, a software engineer at Google in San Francisco.", smallReply).from(one.alias),
			keep("The user prefers Vim and dark mode.", "I prefer Vim and dark mode").from(one.alias))
	case one.alias[0] == 'A':
		facts = append(facts, keep("The user's services are healthy: "+first, first).from(one.alias))
	default:
		facts = append(facts, truthful(one, known)...)
	}
	return facts
}

// nextUser returns the alias of the first message of the user.
func nextUser(messages []line) string {
	for _, one := range messages {
		if one.alias[0] == 'U' {
			return one.alias
		}
	}
	return "U1"
}

// truthful is what a good model makes of a message: the fact, and every other time in other words.
func truthful(one line, known []truth) (facts []fact) {
	for n, t := range known {
		if strings.Contains(one.text, t.says) {
			text := t.fact
			if (len(one.text)+len(one.date)+n)%2 == 0 {
				text = t.again
			}
			facts = append(facts, keep(text, t.says).from(one.alias))
		}
	}
	return facts
}

// sameAgain decides that the same in other words is nothing new, and keeps all else.
func sameAgain(known []truth) func(*consolidation) []decision {
	return func(asked *consolidation) (decisions []decision) {
		for _, c := range asked.candidates {
			for _, m := range asked.memories {
				if t := truthOf(c.text, known); t >= 0 && t == truthOf(m.text, known) {
					decisions = append(decisions, decision{Candidate: c.alias, Action: "NOOP", Memory: new(m.alias), Reason: "It is known."})
					break
				}
			}
		}
		return decisions
	}
}

// truthOf returns which of the known a memory says, -1 for none.
func truthOf(content string, known []truth) int {
	return slices.IndexFunc(known, func(t truth) bool { return strings.Contains(content, t.fact) || strings.Contains(content, t.again) })
}

func lower(text string) string { return strings.ToLower(text[:1]) + text[1:] }

func judgeJunk(ctx context.Context, s *system, p *person, known []truth, messages, proposed int) ([]figure, error) {
	stored, err := p.memories(ctx)
	if err != nil {
		return nil, err
	}
	times := make([]int, len(known))
	var junk, doubled []string
	for _, m := range stored {
		t := truthOf(m.Content, known)
		if t < 0 {
			junk = append(junk, m.Status+": "+m.Content)
			continue
		}
		if times[t]++; times[t] > 1 {
			doubled = append(doubled, m.Content)
		}
	}
	kept := 0
	var lost []string
	for n, times := range times {
		if times > 0 {
			kept++
		} else {
			lost = append(lost, known[n].fact)
		}
	}
	echoes, err := rows[struct{ Memory, Quote, Content string }](ctx, s, `select y.content as memory, coalesce(s.quote, '') as quote, m.content
		from public.memory_sources s join public.messages m on m.id = s.message_id join public.memories y on y.id = s.memory_id
		where s.user_id = $1 and (m.role <> 'user' or m.content like $2 or m.content like $3)`, p.id, pasted+"%", smallReply+"%")
	if err != nil {
		return nil, err
	}
	var said []string
	for _, e := range echoes {
		said = append(said, fmt.Sprintf("%q, by %q in %q", e.Memory, e.Quote, e.Content))
	}
	dropped, err := p.dropped(ctx)
	return []figure{
		informs("messages replayed", float64(messages)),
		informs("proposals of the model", float64(proposed)),
		below("junk among what is stored", len(junk), len(stored), 5, "mem0#4573: 97.8 %", junk...),
		below("near-duplicates among what is stored", len(doubled), len(stored), 2, "mem0#4573: 668 copies of one", doubled...),
		none("sources that are echoes", len(echoes), "", said...),
		exactly("facts that the user said, kept", kept, len(known), "", append(lost, fmt.Sprint("dropped: ", dropped))...),
	}, err
}
