package postgres

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
)

// A start reads of a long buffer what its prompt may show. The prompt is that of the whole buffer, and what is missing in it is counted,
// however the chat came about.
func TestAPartOfTheBufferMakesTheSamePrompt(t *testing.T) {
	t.Parallel()
	limits := memory.DefaultLimits()
	limits.KRawTurns, limits.PromptTokenBudget, limits.BridgeTokenBudget, limits.MaxHistoryTokens = 2, 30, 40, 50
	b := newBedWith(t, limits, 4)
	whole := NewTurns(b.server, memory.DefaultLimits(), b.turns.enqueue)
	random := rand.New(rand.NewPCG(1, 2)) // the same histories each time
	histories, parts := 40, 0
	if !testing.Short() {
		histories = 400
	}
	for n := range histories {
		chatID := b.randomChat(random)
		all, err := whole.ReadChat(t.Context(), b.user, chatID)
		noError(t, err)
		some, err := b.turns.ReadChat(t.Context(), b.user, chatID)
		noError(t, err)
		if len(some.Buffer) < len(all.Buffer) {
			parts++
		}
		want, got := prompt.Build(all.Chat, prompt.Question{Content: "And?"}, limits), prompt.Build(some.Chat, prompt.Question{Content: "And?"}, limits)
		is(t, got.Input, want.Input, "history %d: the prompt", n)
		is(t, tuple(got.Receipt.DroppedTurns, got.Receipt.DroppedTurns), tuple(want.Receipt.DroppedTurns, b.missingTurns(all.Chat, want)), "history %d: dropped", n)
	}
	mustBe(t, parts > histories/4, true, "only %d of %d histories were read in part", parts, histories)
}

// missingTurns counts the messages of the user of which neither brief nor prompt has anything.
func (b *bed) missingTurns(c memory.Chat, p prompt.Prompt) (missing int) {
	recent := ""
	for _, section := range p.Sections {
		if section.Name == "recent" {
			recent = section.Text
		}
	}
	for _, m := range c.Buffer {
		if m.Role == memory.RoleUser && !m.Blank() && !strings.Contains(recent, m.Content[:36]) {
			missing++
		}
	}
	return missing
}

// randomChat stores turns as they may be: long, blank or without a reply, with rows of tools, replies that were replaced, and kept messages.
func (b *bed) randomChat(random *rand.Rand) uuid.UUID {
	strategy := []string{"simple", "summary", "hybrid"}[random.IntN(3)]
	id := ask[uuid.UUID](b, "insert into chats (user_id, memory_strategy) values ($1, $2) returning id", b.user.UserID, strategy)
	var roles, texts, ids, questions []string
	var tokens []int
	var kept []bool
	add := func(role, content, question string, size int) string {
		own := uuid.NewString()
		roles, texts, ids, questions = append(roles, role), append(texts, content), append(ids, own), append(questions, question)
		tokens, kept = append(tokens, size), append(kept, random.IntN(12) == 0)
		return own
	}
	for range 1 + random.IntN(16) {
		question := add("user", uuid.NewString(), "", 2+random.IntN(12))
		for range random.IntN(3) {
			switch random.IntN(5) {
			case 0:
				add("user", " ", "", 0)
			case 1:
				add("tool", "It says so.", "", 1+random.IntN(8))
			default:
				add("assistant", "Well: "+uuid.NewString(), question, 2+random.IntN(20))
			}
		}
	}
	b.exec(`insert into messages (chat_id, role, content, token_count, id, reply_to, pinned)
		select $1, r, c, n, i::uuid, nullif(q, '')::uuid, k
		  from unnest($2::text[], $3::text[], $4::int[], $5::text[], $6::text[], $7::bool[]) with ordinality m (r, c, n, i, q, k, place) order by place`,
		id, roles, texts, tokens, ids, questions, kept)
	if random.IntN(3) == 0 {
		b.exec("update messages set superseded_by = gen_random_uuid(), token_count = 0 where chat_id = $1 and role = 'assistant' and seq % 3 = 0", id)
	}
	covered := random.IntN(4)
	b.exec(`update conversation_briefs b set covered_seq = s.upto, version = 1, pending_tokens = rest.tokens, pending_turns = rest.turns
		from (select coalesce(max(seq), 1) - 1 as upto from messages where chat_id = $1 and role = 'user' and token_count > 0 and seq <= 1 + $2) s,
		lateral (select coalesce(sum(token_count), 0) as tokens, count(*) filter (where role = 'user' and token_count > 0) as turns
		           from messages where chat_id = $1 and seq > s.upto) rest where b.chat_id = $1`, id, covered)
	return id
}
