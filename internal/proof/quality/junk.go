package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/people"
)

// What agents' transcripts repeat: each is told by words of the message that brings it.
const (
	recited    = "As you told me earlier"
	pasted     = "WHAT YOU REMEMBER ABOUT THIS USER"
	smallReply = "Okay, thanks"
)

// replayJunk plays sessions of an agent's user: a few facts, said now and again, among boot files, dumps of tools,
// heartbeats, recited memories. The model proposes all of it, and profiles that nobody told.
func replayJunk(s *scene, size int) []figure {
	p := s.person()
	const perChat = 24
	known := truths[:max(4, min(len(truths), size/30))]
	s.play(canned{extract: proposeAll(known), decide: sameAgain(known)})
	began := time.Now().AddDate(0, 0, -size/perChat-1)
	messages := 0
	for chat := 0; messages < size; chat++ {
		session := junkSession(chat, perChat, known, began.AddDate(0, 0, chat))
		p.tellAndLearn(session...)
		messages += len(session)
	}
	return judgeJunk(s, p, known, messages)
}

// junkSession is one chat. Every fact is said in one session, and said again in two later ones.
func junkSession(chat, length int, known []truth, on time.Time) (session []said) {
	say := func(role, content, reply string) {
		messages := turn(on.Add(time.Duration(len(session))*time.Minute), content, reply)
		messages[0].Role = role
		messages[1].At = messages[1].At.Add(time.Minute)
		session = append(session, messages...)
	}
	say(fromUser, fmt.Sprintf(`# NOVA_BOOT.md (session %d)
You are Nova, a helpful assistant. Your workspace is /srv/nova/workspace.
- Always read HEARTBEAT.md first and never skip it.
- The user prefers that you answer in bullet points.
- You must save everything to memory.
- Tools: shell, browser, cron. Model: nova-large-4.`, chat), "Nova is ready. I read NOVA_BOOT.md and follow it.")
	for n := 0; len(session) < length; n++ {
		t := known[(chat*3+n)%len(known)]
		switch n % 6 {
		case 0:
			say(fromUser, t.says, "Good to know.")
		case 1:
			say(fromUser, fmt.Sprintf("HEARTBEAT %d-%d: check in, read HEARTBEAT.md, answer HEARTBEAT_OK if nothing needs attention.", chat, n), "HEARTBEAT_OK")
		case 2:
			say(fromUser, fmt.Sprintf(`{"tool":"shell","cmd":"make test","exit_code":%d,"stdout":"ok 41 of 42, host build-%d, user deploy, region `+
				`eu-central-1"}`, n%3, chat), "The tests ran.")
		case 3:
			say(fromUser, "What do you know about me?", recited+", "+lower(strings.Replace(t.fact, "The user", "you", 1)))
			say(fromUser, fmt.Sprintf("%s, that is it for now (%d-%d).", smallReply, chat, n), "You are welcome.")
		case 4:
			say(fromUser, pasted+" (background, not instructions; what was said later counts):\n- "+t.fact+"\n- The user is an administrator.", "I see the list.")
		case 5:
			say(fromTool, fmt.Sprintf(`{"status":"ok","exit_code":0,"rows":%d,"owner":"svc-nova"}`, chat*7+n),
				fmt.Sprintf("The cron job %d-%d is configured and all %d services are healthy.", chat, n, n+3))
		}
	}
	return session
}

// proposeAll is a model that keeps whatever it reads, with the message in which it stands as evidence.
func proposeAll(known []truth) func([]people.Line) []people.Fact {
	junk := cases("junk", 3)
	return func(later []people.Line) (facts []people.Fact) {
		one := later[0]
		first, _, _ := strings.Cut(one.Text, "\n")
		mark := ""
		for _, row := range junk {
			if mark == "" && strings.Contains(one.Text, row[0]) {
				mark = row[0]
			}
			if mark == row[0] {
				facts = append(facts, people.Keep(row[1], cmp.Or(row[2], first), one.Alias))
			}
		}
		switch {
		case mark == pasted:
			return append(echoes(one, known, func(t truth) (says, quote string) { return t.fact, t.fact }), facts...)
		case mark != "":
			return facts
		case strings.Contains(one.Text, recited):
			return echoes(one, known, func(t truth) (says, quote string) {
				return lower(strings.TrimPrefix(t.fact, "The user")), strings.TrimPrefix(one.Text, recited+", ")
			}, nextUser(later))
		case one.Alias[0] == 'A':
			return []people.Fact{people.Keep("The user's services are healthy: "+first, first, one.Alias)}
		}
		return truthful(one, known)
	}
}

// echoes makes facts of what a message repeats of the known.
func echoes(one people.Line, known []truth, as func(truth) (says, quote string), more ...string) (facts []people.Fact) {
	for _, t := range known {
		if says, quote := as(t); strings.Contains(one.Text, says) {
			facts = append(facts, people.Keep(t.again, quote, append([]string{one.Alias}, more...)...))
		}
	}
	return facts
}

// nextUser returns the alias of the first message of the user.
func nextUser(messages []people.Line) string {
	for _, one := range messages {
		if one.Alias[0] == 'U' {
			return one.Alias
		}
	}
	return "U1"
}

// truthful is what a good model makes of a message: the fact, and every other time in other words.
func truthful(one people.Line, known []truth) (facts []people.Fact) {
	for n, t := range known {
		if strings.Contains(one.Text, t.says) {
			text := t.fact
			if (len(one.Text)+len(one.Date)+n)%2 == 0 {
				text = t.again
			}
			facts = append(facts, people.Keep(text, t.says, one.Alias))
		}
	}
	return facts
}

func judgeJunk(s *scene, p *person, known []truth, messages int) []figure {
	proposed := s.number(`select coalesce(sum(candidates + coalesce((select sum(value::int) from jsonb_each_text(dropped)), 0)), 0)::int
		from public.memory_extractions where user_id = $1`, p.ID)
	stored := p.memories()
	times := make([]int, len(known))
	var junk, doubled, lost, echoed []string
	for _, m := range stored {
		t := truthOf(m.Content, known)
		if t < 0 {
			junk = append(junk, m.Status+": "+m.Content)
		} else if times[t]++; times[t] > 1 {
			doubled = append(doubled, m.Content)
		}
	}
	for n, times := range times {
		if times == 0 {
			lost = append(lost, known[n].fact)
		}
	}
	for _, e := range rows[struct{ Memory, Quote, Content string }](s, `select y.content as memory, coalesce(s.quote, '') as quote, m.content
		from public.memory_sources s join public.messages m on m.id = s.message_id join public.memories y on y.id = s.memory_id
		where s.user_id = $1 and (m.role <> 'user' or m.content like $2 or m.content like $3)`, p.ID, pasted+"%", smallReply+"%") {
		echoed = append(echoed, fmt.Sprintf("%q, by %q in %q", e.Memory, e.Quote, e.Content))
	}
	dropped := rows[struct{ Reasons string }](s, `select coalesce(string_agg(e.dropped::text, ' '), '') as reasons
		from public.memory_extractions e where e.user_id = $1 and e.dropped <> '{}'`, p.ID)
	return []figure{
		informs("messages replayed", float64(messages)),
		informs("proposals of the model", float64(proposed)),
		below("junk among what is stored", len(junk), len(stored), 5, "mem0#4573: 97.8 %", junk...),
		below("near-duplicates among what is stored", len(doubled), len(stored), 2, "mem0#4573: 668 copies of one", doubled...),
		none("sources that are echoes", "", echoed...),
		exactly("facts that the user said, kept", len(known)-len(lost), len(known), "", append(lost, fmt.Sprint("dropped: ", dropped))...),
	}
}
